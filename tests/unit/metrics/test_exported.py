"""The operator's own metrics: the error budget of a pool, by window."""

from dataclasses import replace

from prometheus_client import CollectorRegistry

from tandem_operator.core.decide import decide
from tandem_operator.core.memory import Memory
from tandem_operator.core.objective.error_budget import BudgetLeft
from tandem_operator.metrics.exported import Exported
from tests.unit.core.scene import NOW_S, make_spec, observe

LEFT = BudgetLeft(
    remaining_share=-0.4, remaining_30d_share=0.8, burn_rates={"5m": 6.0, "1h": 1.4, "6h": 0.5}
)
REMAINING = "tandem_pool_error_budget_remaining_ratio"
BURN_RATE = "tandem_pool_error_budget_burn_rate"


def shown(*budgets: BudgetLeft) -> CollectorRegistry:
    registry = CollectorRegistry()
    exported = Exported(registry)
    decision, _ = decide(make_spec(), observe(), Memory(), NOW_S)
    for budget in budgets:
        exported.show(
            replace(decision, budget=budget),
            namespace="team",
            pool="chat",
            ready={},
            gpus_held=2,
            age_s=None,
        )
    return registry


def value(registry: CollectorRegistry, name: str, window: str) -> float | None:
    labels = {"namespace": "team", "pool": "chat", "window": window}
    return registry.get_sample_value(name, labels)


def test_what_is_left_of_the_error_budget_is_shown_by_window() -> None:
    registry = shown(LEFT)

    assert [value(registry, REMAINING, window) for window in ("1h", "30d")] == [-0.4, 0.8]


def test_how_fast_the_error_budget_is_spent_is_shown_by_window() -> None:
    registry = shown(LEFT)

    assert [value(registry, BURN_RATE, window) for window in ("5m", "1h", "6h")] == [6.0, 1.4, 0.5]


def test_a_budget_that_is_no_longer_known_has_no_series() -> None:
    registry = shown(LEFT, BudgetLeft())

    assert value(registry, REMAINING, "1h") is None
    assert value(registry, BURN_RATE, "5m") is None
