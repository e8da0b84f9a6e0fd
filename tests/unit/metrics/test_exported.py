"""The operator's own metrics: promises, decisions, measurements and costs, by pool."""

from dataclasses import replace
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.samples import Sample

from tandem_operator.api import Condition, Cost
from tandem_operator.core.decide import decide
from tandem_operator.core.decision import Decision
from tandem_operator.core.memory import Memory
from tandem_operator.core.objective.error_budget import BudgetLeft
from tandem_operator.core.role import Role
from tandem_operator.core.schedules import Called
from tandem_operator.core.spec import PoolSpec
from tandem_operator.metrics.exported import Exported
from tandem_operator.metrics.series import SERIES
from tandem_operator.metrics.shown_pool import ShownPool
from tests.unit.core.scene import NOW_S, make_spec, observe

LEFT = BudgetLeft(
    remaining_share=-0.4,
    remaining_30d_share=0.8,
    burn_rates={"5m": 6.0, "1h": 1.4, "6h": 0.5},
    late_requests={"5m": 12},
)
SPEC = make_spec(per_thousand_s=0.2, attainment=0.99, low=2, high=6, gpu_budget=9)
REMAINING = "tandem_pool_error_budget_remaining_ratio"
BURN_RATE = "tandem_pool_error_budget_burn_rate"


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Page:
    """The pools' series in a scrape of one operator."""

    def __init__(self) -> None:
        self.registry, self.clock = CollectorRegistry(), Clock()
        self.exported = Exported(self.registry, clock=self.clock)

    def show(self, shown: ShownPool) -> "Page":
        self.exported.show(shown)
        return self

    def value(self, name: str, **labels: str) -> float | None:
        where = {"namespace": "team", "pool": "chat"}
        return self.registry.get_sample_value(name, where | labels)

    def of_pool(self, pool: str) -> list[Sample]:
        return [
            sample
            for family in self.registry.collect()
            for sample in family.samples
            if sample.labels.get("pool") == pool
        ]


def decided(spec: PoolSpec = SPEC, **changes: Any) -> Decision:
    decision, _ = decide(spec, observe(), Memory(), NOW_S)
    return replace(decision, **changes)


def of_role(decision: Decision, role: Role, **changes: Any) -> Decision:
    roles = {**decision.roles, role: replace(decision.roles[role], **changes)}
    return replace(decision, roles=roles)


def condition(kind: str, status: str) -> Condition:
    return Condition(
        type=kind,
        status=status,
        observed_generation=1,
        last_transition_time="2026-09-21T14:13:20Z",
        reason="Because",
        message="It is so.",
    )


def shown(**changes: Any) -> ShownPool:
    pool = ShownPool(
        namespace="team",
        pool="chat",
        conditions=(),
        policy=SPEC,
        decision=decided(budget=LEFT),
        ready={"prefill": 2},
        gpus_held=2,
        cost=None,
        age_s=None,
        at_s=NOW_S,
    )
    return replace(pool, **changes)


def test_what_is_left_of_the_error_budget_is_shown_by_window() -> None:
    page = Page().show(shown())

    assert [page.value(REMAINING, window=window) for window in ("1h", "30d")] == [-0.4, 0.8]


def test_how_fast_the_error_budget_is_spent_is_shown_by_window() -> None:
    page = Page().show(shown())

    assert [page.value(BURN_RATE, window=each) for each in ("5m", "1h", "6h")] == [6.0, 1.4, 0.5]
    assert page.value("tandem_pool_late_requests", window="5m") == 12.0


def test_a_budget_that_is_no_longer_known_has_no_series() -> None:
    page = Page().show(shown()).show(shown(decision=decided(budget=BudgetLeft())))

    assert page.value(REMAINING, window="1h") is None
    assert page.value(BURN_RATE, window="5m") is None


def test_the_promise_of_the_spec_is_shown_in_seconds_and_shares() -> None:
    page = Page().show(shown())

    assert page.value("tandem_pool_slo_ttft_target_seconds") == 1.0
    assert page.value("tandem_pool_slo_ttft_per_thousand_prompt_tokens_seconds") == 0.2
    assert page.value("tandem_pool_slo_tpot_target_seconds") == 0.03
    assert page.value("tandem_pool_slo_objective_ratio") == 0.99


def test_the_price_of_a_gpu_is_shown_with_its_currency() -> None:
    page = Page().show(shown(cost=Cost(per_gpu_hour="2.49", currency="EUR")))

    assert page.value("tandem_pool_gpu_hour_cost", currency="EUR") == 2.49
    page.show(shown())
    assert page.value("tandem_pool_gpu_hour_cost", currency="EUR") is None


def test_the_bounds_of_the_spec_are_shown_by_role() -> None:
    page = Page().show(shown())

    for role in Role:
        assert page.value("tandem_pool_min_replicas", role=role.value) == 2.0
        assert page.value("tandem_pool_max_replicas", role=role.value) == 6.0
    assert page.value("tandem_pool_gpu_budget") == 9.0
    assert page.value("tandem_pool_mode", mode="Auto") == 1.0


def test_the_least_of_a_role_includes_what_schedules_hold() -> None:
    held = Called(floors={Role.PREFILL: 4, Role.DECODE: 2})
    page = Page().show(shown(decision=decided(called=held)))

    assert page.value("tandem_pool_min_replicas", role="prefill") == 4.0
    assert page.value("tandem_pool_min_replicas", role="decode") == 2.0


def test_a_budget_that_a_rollout_uses_a_part_of_is_shown_as_its_user_wrote_it() -> None:
    page = Page().show(shown(policy=replace(SPEC, gpu_budget=7, rollout_gpus=2)))

    assert page.value("tandem_pool_gpu_budget") == 9.0


def test_a_pool_without_a_gpu_budget_has_no_series_of_one() -> None:
    page = Page().show(shown(policy=make_spec()))

    assert page.value("tandem_pool_gpu_budget") is None


def test_the_numbers_behind_a_decision_are_shown_by_role() -> None:
    decision = of_role(
        decided(
            inputs={"cold_start_decode_s": 90.0, "forecast_rps": 3.0, "forecast_high_rps": 5.0}
        ),
        Role.DECODE,
        capacity_rps=4.5,
        utilization=0.7,
        limits_hit=("maxReplicas",),
    )
    page = Page().show(shown(decision=decision))

    assert page.value("tandem_pool_capacity_requests_per_second", role="decode") == 4.5
    assert page.value("tandem_pool_utilization_ratio", role="decode") == 0.7
    assert page.value("tandem_pool_cold_start_seconds", role="decode") == 90.0
    assert page.value("tandem_pool_cold_start_seconds", role="prefill") is None
    assert page.value("tandem_pool_limit_hit", role="decode", limit="maxReplicas") == 1.0
    assert page.value("tandem_pool_forecast_requests_per_second") == 3.0
    assert page.value("tandem_pool_forecast_high_requests_per_second") == 5.0


def test_a_limit_that_is_no_longer_hit_has_no_series() -> None:
    at_limit = of_role(decided(), Role.DECODE, limits_hit=("maxReplicas",))
    page = Page().show(shown(decision=at_limit)).show(shown(decision=decided()))

    assert page.value("tandem_pool_limit_hit", role="decode", limit="maxReplicas") is None


def test_decisions_are_counted_by_reason() -> None:
    page = Page().show(shown()).show(shown())

    reason = decided().roles[Role.DECODE].reason.value
    assert page.value("tandem_decisions_total", role="decode", reason=reason) == 2.0


def test_each_condition_has_a_series_for_each_status_also_one_of_a_newer_version() -> None:
    given = (condition("Ready", "True"), condition("Stalled", "Unknown"))
    page = Page().show(shown(conditions=given))

    found = {
        (kind, status): page.value("tandem_pool_condition", condition=kind, status=status)
        for kind in ("Ready", "Stalled")
        for status in ("true", "false", "unknown")
    }
    assert [key for key, value in found.items() if value == 1.0] == [
        ("Ready", "true"),
        ("Stalled", "unknown"),
    ]
    assert list(found.values()).count(0.0) == 4


def test_a_pool_whose_spec_is_refused_shows_its_conditions_and_no_old_decision() -> None:
    refused = shown(
        policy=None, decision=None, gpus_held=None, conditions=(condition("Accepted", "False"),)
    )
    page = Page().show(shown()).show(refused)

    assert page.value("tandem_pool_condition", condition="Accepted", status="false") == 1.0
    assert page.value("tandem_pool_desired_replicas", role="decode") is None
    assert page.value(BURN_RATE, window="1h") is None
    assert page.value("tandem_pool_ready_replicas", role="prefill") == 2.0


def test_gpus_held_add_up_over_the_time_between_two_passes() -> None:
    page = Page().show(shown(gpus_held=2))
    page.clock.now_s += 5.0
    page.show(shown(gpus_held=8))
    page.clock.now_s += 10.0
    page.show(shown(gpus_held=1))

    assert page.value("tandem_pool_gpu_seconds_total") == 2 * 5.0 + 8 * 10.0


def test_pods_of_a_refused_spec_still_add_to_the_gpu_seconds() -> None:
    page = Page().show(shown(gpus_held=2))
    for _ in range(2):
        page.clock.now_s += 5.0
        page.show(shown(policy=None, decision=None, gpus_held=None))

    assert page.value("tandem_pool_gpu_seconds_total") == 2 * 10.0


def test_nothing_is_shown_of_a_pool_that_is_gone_and_all_of_the_others() -> None:
    ready = (condition("Ready", "True"),)
    page = Page().show(shown(conditions=ready)).show(shown(conditions=ready, pool="batch"))

    page.exported.forget(namespace="team", pool="chat")

    assert page.of_pool("chat") == []
    assert len(page.of_pool("batch")) > 30


def test_a_pool_that_is_made_anew_starts_its_gpu_seconds_from_zero() -> None:
    page = Page().show(shown(gpus_held=2))
    page.exported.forget(namespace="team", pool="chat")
    page.clock.now_s += 500.0
    page.show(shown(gpus_held=2))

    assert page.value("tandem_pool_gpu_seconds_total") == 0.0


def test_the_version_of_the_operator_is_shown() -> None:
    assert b"tandem_build_info{version=" in generate_latest(Page().registry)


def test_names_follow_the_rules_of_prometheus() -> None:
    for each in SERIES:
        assert each.name.endswith("_total") == (each.kind == "counter")
        assert each.unit != "seconds" or each.name.endswith("_seconds"), each.name
        assert each.name.endswith("_ratio") == (each.unit == "share"), each.name
        assert not each.of_pool or each.labels[:2] == ("namespace", "pool")
