"""The bounds that make a request good, in SI units."""

from collections.abc import Sequence
from dataclasses import dataclass

from tandem_contracts.ttft_bound import ttft_bound_s


@dataclass(frozen=True, slots=True)
class Slo:
    """Latency bounds of one request, and the share of requests that must keep them."""

    ttft_s: float
    ttft_s_per_thousand_prompt_tokens: float
    tpot_s: float
    attainment: float

    def ttft_bound_s(self, prompt_tokens: float) -> float:
        """Return the TTFT bound of a request with `prompt_tokens` tokens, cached or not."""
        return ttft_bound_s(
            prompt_tokens,
            ttft_s=self.ttft_s,
            per_thousand_tokens_s=self.ttft_s_per_thousand_prompt_tokens,
        )


@dataclass(frozen=True, slots=True)
class SloClass:
    """Requests of one kind, and how they must be served.

    Attributes:
        guaranteed: replicas are held for it; else it uses the capacity that others leave.
        priority: the highest goes first, among guaranteed classes and among the others.
        refuse_late: a waiting request is refused once it cannot be on time any more.
    """

    name: str
    slo: Slo
    guaranteed: bool = True
    priority: int = 0
    refuse_late: bool = False


DEFAULT_CLASS = "default"
"""The class of a request that belongs to no other class."""


def class_named(classes: Sequence[SloClass], name: str) -> SloClass | None:
    """Return the class of that name, else that of requests without a name; `None`: no classes."""
    by_name = {each.name: each for each in classes}
    return by_name.get(name) or by_name.get(DEFAULT_CLASS)


def strictest(slos: Sequence[Slo]) -> Slo | None:
    """Return bounds that keep all of these; `None` of none."""
    if not slos:
        return None
    return Slo(
        ttft_s=min(each.ttft_s for each in slos),
        ttft_s_per_thousand_prompt_tokens=min(
            each.ttft_s_per_thousand_prompt_tokens for each in slos
        ),
        tpot_s=min(each.tpot_s for each in slos),
        attainment=max(each.attainment for each in slos),
    )
