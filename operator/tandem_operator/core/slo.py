"""The bounds that make a request good, in SI units."""

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
        """TTFT bound of a request with `prompt_tokens` tokens of prompt, cached or not."""
        return ttft_bound_s(
            prompt_tokens,
            ttft_s=self.ttft_s,
            per_thousand_tokens_s=self.ttft_s_per_thousand_prompt_tokens,
        )
