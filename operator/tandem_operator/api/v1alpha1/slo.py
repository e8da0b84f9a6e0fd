"""`spec.slo`: latency bounds of a request, given or from a preset."""

from dataclasses import asdict, dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from tandem_operator.api.presets import PRESETS, Preset, PresetBounds, preset_sentence
from tandem_operator.api.rules import ApiModel, Rule
from tandem_operator.api.values import (
    Duration,
    Percentage,
    duration_rule,
    duration_s,
    percentage_rule,
    ratio,
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
    100ms. Without it: that of the preset, else 0s."""


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


class Slo(ApiModel):
    """Latency bounds of a request, and the share of requests that must keep both of them."""

    preset: Annotated[
        Preset | None, Field(description=f"Bounds for what is not given here. {preset_sentence()}.")
    ] = None
    ttft: Ttft | None = None
    """Bound of the time to first token (TTFT); what governs the prefill fleet."""
    tpot: Tpot | None = None
    """Bound of the time per output token (TPOT); what governs the decode fleet."""
    attainment: Annotated[
        Percentage,
        percentage_rule(name="attainment", example="99%", least="50%", most="99.99%"),
    ] = "99%"
    """Share of requests that must keep both bounds, as a percentage such as 99% or 99.5%."""

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

    def bounds(self) -> SloBounds:
        """The bounds in force: what is given here, and the preset for the rest."""
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
