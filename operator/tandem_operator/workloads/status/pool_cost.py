"""The cost of a pool, from its GPUs and its recent requests."""

from tandem_operator.api import Cost, CostStatus
from tandem_operator.core.decision import Attainment

_SECONDS_PER_HOUR = 3600.0


def cost_of(cost: Cost, *, gpus: int, recent: Attainment) -> CostStatus:
    """Return the price of the held GPUs, by the hour and by their results."""
    per_hour = gpus * cost.price

    def money(amount: float) -> str:
        return f"{_amount(amount)} {cost.currency}"

    def per(units: float, rate: float | None) -> str | None:
        return money(units * per_hour / _SECONDS_PER_HOUR / rate) if rate else None

    return CostStatus(
        per_hour=money(per_hour),
        per_million_tokens=per(1e6, recent.output_tokens_per_s),
        per_thousand_good_requests=per(1e3, recent.goodput_rps),
    )


def _amount(amount: float) -> str:
    """Return the amount: small ones with three significant digits, large ones with two decimals."""
    return f"{amount:.2f}" if amount >= 1.0 else f"{amount:.3g}"
