"""The TTFT bound of a request, for the operator and the router."""


def ttft_bound_s(prompt_tokens: float, *, ttft_s: float, per_thousand_tokens_s: float) -> float:
    """Return the bound in seconds for a prompt of that many tokens, cached or not."""
    return ttft_s + per_thousand_tokens_s * prompt_tokens / 1000.0
