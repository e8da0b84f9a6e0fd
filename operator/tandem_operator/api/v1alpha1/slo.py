"""`spec.slo`: latency bounds of a request, given or from a preset."""

from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from tandem_operator.api.presets import PRESETS, Preset, PresetBounds, preset_sentence
from tandem_operator.api.rules import ApiModel, ListMap, Rule
from tandem_operator.api.values import (
    Count,
    Duration,
    Percentage,
    digest_rule,
    duration_rule,
    duration_s,
    percentage_rule,
    ratio,
    text_rule,
)


class Ttft(ApiModel):
    """Bound of the time to first token: target + perThousandPromptTokens x prompt tokens / 1000."""

    target: (
        Annotated[
            Duration,
            duration_rule(name="ttft.target", example="500ms", least="1ms", most="1h"),
        ]
        | None
    ) = None
    """Time from the whole request at the router to the first generated token sent, for an empty
    prompt. A duration such as 500ms or 1.5s."""
    per_thousand_prompt_tokens: (
        Annotated[
            Duration,
            duration_rule(
                name="ttft.perThousandPromptTokens", example="100ms", least="0s", most="1h"
            ),
        ]
        | None
    ) = None
    """Time added to the bound for each 1,000 prompt tokens, cached or not, as a duration such as
    100ms. Without it: the value of the preset, else 0s."""


class Tpot(ApiModel):
    """Bound of the mean time between a request's output tokens after the first."""

    target: Annotated[
        Duration, duration_rule(name="tpot.target", example="50ms", least="1ms", most="1m")
    ]
    """Time per output token as a duration such as 50ms: (last token - first token) / (output
    tokens - 1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SloBounds(PresetBounds):
    """An SLO with its preset filled in, in SI units."""

    attainment: float


class Service(StrEnum):
    """Service level of a class of requests."""

    GUARANTEED = "Guaranteed"
    BEST_EFFORT = "BestEffort"


class WhenLate(StrEnum):
    """Treatment of a waiting request that cannot be on time any more."""

    SERVE = "Serve"
    REFUSE = "Refuse"


ClassName = Annotated[
    str,
    Field(max_length=32),
    text_rule(
        pattern="^[a-z]([-a-z0-9]*[a-z0-9])?$",
        message=(
            "classes.name must be lower-case letters, digits and '-'; write for example batch"
        ),
    ),
]
KeyDigest = Annotated[
    str,
    Field(max_length=71),
    digest_rule(name="classes.keys"),
]


class SloClass(ApiModel):
    """Requests of one kind."""

    name: ClassName
    """Name of the class in requests, such as batch. Requests that name none have the class
    default."""
    service: Service = Service.GUARANTEED
    """Guaranteed: Tandem holds replicas for it. BestEffort: it uses the capacity that guaranteed
    classes leave."""
    priority: Annotated[Count, Field(ge=-1000, le=1000)] = 0
    """The class with the highest number goes first, if not all of one service can be on time."""
    when_late: WhenLate = WhenLate.SERVE
    """Treatment of a waiting request that cannot be on time any more. Serve: it goes behind others.
    Refuse: it gets 429 at once."""
    ttft: Ttft | None = None
    """TTFT bound of the class; fields that are left out are those of slo."""
    tpot: Tpot | None = None
    """TPOT bound of the class; without it that of slo."""
    attainment: (
        Annotated[
            Percentage,
            percentage_rule(name="classes.attainment", example="99%", least="50%", most="99.99%"),
        ]
        | None
    ) = None
    """Share of its requests that must keep both bounds; without it that of slo."""
    models: Annotated[list[Annotated[str, Field(max_length=128)]], Field(max_length=8)] | None = (
        None
    )
    """Names out of model.name and model.aliases whose requests always have this class."""
    keys: Annotated[list[KeyDigest], Field(max_length=64)] | None = None
    """Digests of the API keys that may use the class. A request with one of them has the class,
    unless it names another. Without keys, every client may use the class."""

    rules: ClassVar = (
        Rule(
            expression="self.whenLate != 'Refuse' || self.service != 'BestEffort'",
            message="classes.whenLate: Refuse needs service: Guaranteed; write whenLate: Serve",
            holds=lambda given: (
                given.when_late is not WhenLate.REFUSE or given.service is not Service.BEST_EFFORT
            ),
        ),
    )


class Slo(ApiModel):
    """Latency bounds of a request, and the share of requests that must keep both of them."""

    preset: Annotated[
        Preset | None, Field(description=f"Bounds for what is not given here. {preset_sentence()}.")
    ] = None
    ttft: Ttft | None = None
    """Bound of the time to first token (TTFT). It decides the size of the prefill fleet."""
    tpot: Tpot | None = None
    """Bound of the time per output token (TPOT). It decides the size of the decode fleet."""
    attainment: Annotated[
        Percentage,
        percentage_rule(name="attainment", example="99%", least="50%", most="99.99%"),
    ] = "99%"
    """Share of requests that must keep both bounds, as a percentage such as 99% or 99.5%."""
    classes: (
        Annotated[
            list[SloClass],
            Field(min_length=1, max_length=8),
            ListMap("name"),
        ]
        | None
    ) = None
    """Kinds of requests with their own bounds. Clients name one in the header X-Tandem-Class or
    X-Gateway-Inference-Objective, or in service_tier. Other requests are guaranteed, with the
    bounds above."""

    rules: ClassVar = (
        Rule(
            expression=(
                "has(self.preset) || (has(self.ttft) && has(self.ttft.target) && has(self.tpot))"
            ),
            message=(
                "slo needs a preset, or both ttft.target and tpot.target;"
                " write for example preset: Chat"
            ),
            holds=lambda slo: bool(slo.preset or (slo.ttft and slo.ttft.target and slo.tpot)),
        ),
    )

    def bounds_of(self, given: SloClass) -> SloBounds:
        """The bounds of a class, completed by those of all requests."""
        bounds, ttft = self.bounds(), given.ttft or Ttft()
        own = {
            "ttft_s": ttft.target,
            "ttft_s_per_thousand_prompt_tokens": ttft.per_thousand_prompt_tokens,
            "tpot_s": given.tpot.target if given.tpot else None,
        }
        seconds = {name: duration_s(text) for name, text in own.items() if text is not None}
        attainment = bounds.attainment if given.attainment is None else ratio(given.attainment)
        return replace(bounds, **seconds, attainment=attainment)

    def bounds(self) -> SloBounds:
        """The bounds in force: those given here, completed by the preset."""
        ttft = self.ttft or Ttft()
        given = {
            "ttft_s": ttft.target,
            "ttft_s_per_thousand_prompt_tokens": ttft.per_thousand_prompt_tokens,
            "tpot_s": self.tpot.target if self.tpot else None,
        }
        otherwise = {"ttft_s_per_thousand_prompt_tokens": 0.0}
        if self.preset:
            otherwise = asdict(PRESETS[self.preset])
        seconds = {name: duration_s(text) for name, text in given.items() if text is not None}
        return SloBounds(**(otherwise | seconds), attainment=ratio(self.attainment))
