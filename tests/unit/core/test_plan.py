"""The choice and its two neighbours: what a little more load needs, and what a little less does."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_operator.core.forecast.distribution import Forecast, Level
from tandem_operator.core.learn.engine_models import EngineModels
from tandem_operator.core.observe.role_pods import Starts, fleet
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.demand import Situation
from tandem_operator.core.sizing.replica_counts import RoleDemand, alone
from tandem_operator.core.sizing.role_targets import Plan, plan_for
from tests.unit.core.scene import NOW_S, make_spec, observe
from tests.unit.core.test_sizing import decode as decode_work
from tests.unit.core.test_sizing import poisson, replay, sampled

STEP_RPS = 10.0
SAMPLE = sampled(poisson(30.0))


def late_share(each_rps: float, rate_rps: float, replicas: int) -> float:
    """Return the late share where each replica bears `each_rps`."""
    return max(0.0, 1.0 - replicas * each_rps / rate_rps)


def planned(
    rate_rps: float,
    asked: Mapping[Role, int],
    *,
    known_s: float = 600.0,
    gpu_budget: int | None = None,
    decode_rps: float = STEP_RPS,
    floors: Mapping[Role, int] | None = None,
) -> Plan:
    """Return the plan for a rate of which every prefill replica bears ten requests a second."""
    bears = {Role.PREFILL: STEP_RPS, Role.DECODE: decode_rps}
    demands = {
        role: RoleDemand(late_share=partial(late_share, each), busy=1.0 / each)
        for role, each in bears.items()
    }
    return plan_of(
        demands, rate_rps, asked, known_s=known_s, gpu_budget=gpu_budget, floors=floors or {}
    )


def plan_of(
    demands: Mapping[Role, RoleDemand],
    rate_rps: float,
    asked: Mapping[Role, int],
    *,
    known_s: float,
    gpu_budget: int | None,
    floors: Mapping[Role, int],
) -> Plan:
    seen = observe(prefill=asked[Role.PREFILL], decode=asked[Role.DECODE])
    plan = plan_for(
        make_spec(high=20, gpu_budget=gpu_budget),
        situation=Situation(
            sample=SAMPLE,
            models=EngineModels(),
            replay=replay(SAMPLE, service_s=0.1),
            decode=decode_work(),
            demands=demands,
        ),
        expected=Forecast(lead_s=60.0, levels=(Level(60.0, rate_rps, (rate_rps,)),)),
        fleets={role: fleet(seen, role, Starts(), NOW_S) for role in Role},
        late_price=1.5,
        idle=False,
        floors=floors,
        known_s=known_s,
    )
    assert plan is not None
    return plan


def prefill(plan: Plan) -> tuple[int, int, int]:
    """Return prefill's targets: surely, wanted, kept."""
    return tuple(each.target[Role.PREFILL] for each in (plan.sure, plan.choice, plan.keep))  # type: ignore[return-value]


def assert_between(plan: Plan) -> None:
    for role in Role:
        sure, choice, keep = (each.target[role] for each in (plan.sure, plan.choice, plan.keep))
        assert sure <= choice <= keep


def test_a_need_of_a_few_percent_is_wanted_but_not_sure() -> None:
    one = {Role.PREFILL: 1, Role.DECODE: 4}

    assert prefill(planned(10.3, one)) == (1, 2, 2)
    assert prefill(planned(10.9, one)) == (2, 2, 2)
    assert prefill(planned(20.8, one)) == (2, 3, 3)


def test_what_a_little_more_load_would_need_is_kept_but_not_wanted() -> None:
    three = {Role.PREFILL: 3, Role.DECODE: 4}

    assert prefill(planned(18.0, three)) == (2, 2, 3)
    assert prefill(planned(15.0, three)) == (2, 2, 2)
    assert prefill(planned(15.0, three, known_s=50.0)) == (2, 2, 3)


def test_what_violations_demand_is_sure() -> None:
    plan = planned(8.0, {Role.PREFILL: 1, Role.DECODE: 4}, floors={Role.PREFILL: 3})

    assert prefill(plan) == (3, 3, 3)


def test_a_plan_holds_the_gpus_of_what_it_keeps() -> None:
    plan = planned(18.0, {Role.PREFILL: 3, Role.DECODE: 2})

    # Two of each are wanted, and three of each bear a little more.
    assert plan.gpus(make_spec()) == 6


def test_each_choice_of_a_plan_is_changed() -> None:
    plan = planned(18.0, {Role.PREFILL: 3, Role.DECODE: 2})

    changed = plan.each(lambda choice: replace(choice, target=dict.fromkeys(Role, 7)))

    assert prefill(changed) == (7, 7, 7)


@given(
    rate_rps=st.floats(0.5, 150.0),
    decode_rps=st.floats(2.0, 40.0),
    asked=st.fixed_dictionaries({role: st.integers(1, 20) for role in Role}),
    gpu_budget=st.none() | st.integers(2, 30),
    known_s=st.sampled_from((50.0, 600.0)),
)
def test_what_is_wanted_is_never_less_than_what_is_sure_nor_more_than_what_is_kept(
    rate_rps: float,
    decode_rps: float,
    asked: dict[Role, int],
    gpu_budget: int | None,
    known_s: float,
) -> None:
    plan = planned(rate_rps, asked, decode_rps=decode_rps, gpu_budget=gpu_budget, known_s=known_s)

    assert_between(plan)


@pytest.mark.parametrize(
    ("service_s", "output_tokens", "rate_rps", "prefill", "decode"),
    [(0.2, 400.0, 12.0, 6, 3), (0.3, 100.0, 37.0, 9, 10), (0.1, 100.0, 48.0, 9, 2)],
)
def test_a_full_budget_trades_no_role_beyond_what_is_wanted(
    service_s: float, output_tokens: float, rate_rps: float, prefill: int, decode: int
) -> None:
    """More load, or less, is best met by another pair of the same size."""
    queue, steps = replay(SAMPLE, service_s=service_s), decode_work(outputs=output_tokens)
    demands = {
        Role.PREFILL: RoleDemand(queue.late_share, queue.work.mean_service_s),
        Role.DECODE: RoleDemand(steps.late_share, steps.load(1.0), price_weight=0.05),
    }

    plan = plan_of(
        demands,
        rate_rps,
        {Role.PREFILL: prefill, Role.DECODE: decode},
        known_s=50.0,
        gpu_budget=prefill + decode,
        floors={},
    )

    assert sum(plan.choice.target.values()) == prefill + decode
    assert_between(plan)


def test_a_late_request_costs_less_where_most_cannot_be_in_time() -> None:
    levels = (Level(horizon_s=60.0, mean_rps=10.0, samples_rps=(10.0,)),)

    def count(reachable_share: float) -> int:
        # Each replica more helps less than the one before it.
        demand = RoleDemand(
            late_share=lambda _, replicas: 0.2 / replicas,
            busy=0.01,
            reachable_share=reachable_share,
        )
        return alone(
            make_spec(attainment=0.9, high=40),
            Role.PREFILL,
            Forecast(lead_s=60.0, levels=levels),
            dict.fromkeys(Role, demand),
            fixed={},
            late_price=20_000.0,
            floors={},
        )

    assert 1 < count(0.2) < 0.25 * count(1.0)
