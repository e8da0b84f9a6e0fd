"""Budget, history and insurance meet the plan: replicas held, for how long, and for what."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import cast

import pytest

from tandem_operator.core.decide import decide
from tandem_operator.core.decision import Decision, Reason
from tandem_operator.core.memory import Memory
from tandem_operator.core.objective.error_budget import ErrorBudget
from tandem_operator.core.objective.insurance import FOR_EVER_S, Cover, Short
from tandem_operator.core.objective.promise import Promise
from tandem_operator.core.observe.arrivals import Arrivals
from tandem_operator.core.observe.demand_history import BUCKET_S, KEPT_S, UNKNOWN, DemandHistory
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.demand import Situation, Work
from tandem_operator.core.sizing.replica_counts import Choice
from tandem_operator.core.sizing.role_targets import Bursts, Plan
from tandem_operator.core.spec import PoolSpec
from tandem_operator.workloads.stored_memory import memory_from_json, memory_to_json
from tests.unit.core.bursts import HIGH_RPS, LOW_RPS, WORK, covered, lived, lulls_and_bursts
from tests.unit.core.scene import NOW_S, make_spec, observe, report

LARGE = 64 * 1024
BURSTS = Bursts(rate_rps=20.0, times=6, span_s=1800.0, late_share=0.4)
STEADY = Cover(
    floors={Role.PREFILL: 5, Role.DECODE: 2},
    steady=True,
    recurring=True,
    bursts={Role.PREFILL: BURSTS},
    most={Role.PREFILL: 5, Role.DECODE: 2},
    busy=WORK.busy,
    record=int(HIGH_RPS * BUCKET_S),
)


@dataclass
class Wanting:
    """A planner that wants so many replicas of each role, and notes the floors of each call."""

    replicas: int
    asked: list[Mapping[Role, int]] = field(default_factory=list)

    def __call__(self, *, floors: Mapping[Role, int]) -> Plan | None:
        self.asked.append(floors)
        target = {role: max(self.replicas, floors.get(role, 1)) for role in Role}
        choice = Choice(wanted=target, target=target)
        return Plan(choice=choice, keep=choice, sure=choice)


def arriving(rate: float, *, seconds: int = 60) -> Arrivals:
    return Arrivals(end_s=int(NOW_S), counts=(rate,) * seconds, seconds={}, complete=True)


def insured(
    promise: Promise, want: int, *, rate: float = LOW_RPS, idle: bool = False, seen: int = 1
) -> tuple[Plan, Promise]:
    plan, after = promise.insure(
        Wanting(want),
        floors={Role.PREFILL: seen} if seen > 1 else {},
        arrivals=arriving(rate),
        situation=known(feasible=True),
        attainment=0.95,
        idle=idle,
    )
    assert plan is not None
    return plan, after


def promised(cover: Cover = STEADY, history: DemandHistory | None = None) -> Promise:
    return Promise(cover=cover, history=lived(lulls_and_bursts(6)) if history is None else history)


def target(plan: Plan) -> tuple[int, int]:
    return plan.choice.target[Role.PREFILL], plan.choice.target[Role.DECODE]


def test_a_lull_holds_what_the_insurance_holds_and_says_for_what() -> None:
    plan, _ = insured(promised(), 1)

    assert target(plan) == (5, 2)
    assert plan.held_for == {Role.PREFILL: BURSTS}


def test_nothing_is_held_for_bursts_where_the_forecast_wants_as_much() -> None:
    plan, _ = insured(promised(replace(STEADY, steady=False, most={})), 6)

    assert target(plan) == (6, 6)
    assert plan.held_for == {}


def test_what_violations_demand_is_not_said_to_be_for_bursts() -> None:
    plan, _ = insured(promised(), 1, seen=7)

    assert target(plan) == (7, 2)
    assert Role.PREFILL not in plan.held_for


@pytest.mark.parametrize("want", [1, 3, 9, 40])
def test_a_steady_fleet_never_exceeds_its_floor_within_the_record(want: int) -> None:
    plan, _ = insured(promised(), want, rate=HIGH_RPS)

    for choice in (plan.choice, plan.keep, plan.sure):
        assert (choice.target[Role.PREFILL], choice.target[Role.DECODE]) == (5, 2)


def test_a_steady_fleet_lets_go_the_moment_that_load_is_above_the_record() -> None:
    plan, _ = insured(promised(), 9, rate=2 * HIGH_RPS)

    assert target(plan) == (9, 9)


BURNING = ErrorBudget(folded_s=int(NOW_S), finished=(600,) * 3, good=(600, 540, 500))


def test_a_fleet_that_makes_too_many_late_is_no_limit_any_more() -> None:
    plan, _ = insured(replace(promised(), budget=BURNING), 9, rate=HIGH_RPS)

    assert target(plan) == (9, 9)


def test_requests_that_were_late_for_a_wake_leave_the_limit() -> None:
    woken = replace(BURNING, woken=(0, 60, 100))

    plan, _ = insured(replace(promised(), budget=woken), 9, rate=HIGH_RPS)

    assert target(plan) == (5, 2)


@pytest.mark.parametrize(("rate", "wanted"), [(12.0, (5, 2)), (14.0, (9, 9))])
def test_level_traffic_that_rises_slowly_is_no_longer_limited(
    rate: float, wanted: tuple[int, int]
) -> None:
    level = replace(STEADY, level_s=int(NOW_S) - 600)
    history = lived([(12.0, 3600.0)])

    plan, _ = insured(promised(level, history), 9, rate=rate)
    changing, _ = insured(promised(STEADY, history), 9, rate=rate)

    assert target(plan) == wanted
    # Other traffic is limited up to its record.
    assert target(changing) == (5, 2)


def test_violations_move_a_steady_fleet_as_any_other() -> None:
    plan, _ = insured(promised(), 9, rate=HIGH_RPS, seen=7)

    assert target(plan) == (7, 2)


def test_violations_move_a_fleet_for_level_traffic_too() -> None:
    level = replace(STEADY, level_s=int(NOW_S) - 600)

    plan, _ = insured(promised(level, lived([(HIGH_RPS, 3600.0)])), 9, rate=HIGH_RPS, seen=7)

    assert target(plan) == (7, 2)


def test_the_history_keeps_what_the_forecast_wanted_without_the_insurance() -> None:
    _, after = insured(promised(), 3)

    assert after.history.open_wants == {Role.PREFILL: 3, Role.DECODE: 3}


def test_one_burst_holds_nothing_at_rest() -> None:
    once = promised(Cover(floors={Role.PREFILL: 5, Role.DECODE: 2}))

    plan, _ = insured(once, 1, rate=0.0, idle=True)

    assert target(plan) == (1, 1)
    assert plan.held_for == {}


def test_bursts_that_recur_are_held_at_rest_too() -> None:
    plan, _ = insured(promised(), 1, rate=0.0, idle=True)

    assert target(plan) == (5, 2)


def test_nothing_is_insured_while_nothing_can_be_planned() -> None:
    promise = promised()

    plan, after = promise.insure(
        lambda *, floors: None,
        floors={},
        arrivals=arriving(1.0),
        situation=None,
        attainment=0.95,
        idle=False,
    )

    assert plan is None
    assert after == promise


def known(*, feasible: bool, work: Work = WORK) -> Situation:
    """Return the requests of today whose objective some fleet can hold, or none."""
    told = {"busy": work.busy, "mean_tokens": work.mean_tokens}
    return cast(
        Situation, SimpleNamespace(feasible=feasible, work=lambda *, overflow: work, **told)
    )


def looked(
    promise: Promise,
    *,
    at_s: float = 0.0,
    situation: Situation | None = None,
    attainment: float = 0.95,
    spec: PoolSpec | None = None,
) -> Promise:
    """Look once at a silent pool; without a situation the requests of today are unknown."""
    return promise.look(
        make_spec(high=12, attainment=attainment) if spec is None else spec,
        routers=[report(now_s=NOW_S + at_s)],
        arrivals=Arrivals(end_s=int(NOW_S + at_s), counts=(0.0,) * 1200, seconds={}, complete=True),
        situation=situation,
        lead_s=dict.fromkeys(Role, 60.0),
    )


@pytest.mark.parametrize(
    "edited",
    [
        make_spec(high=12, attainment=0.99),
        make_spec(high=12, ttft_s=0.5),
        make_spec(high=9),
        make_spec(high=12, gpu_budget=20),
    ],
    ids=["attainment", "ttft", "maxReplicas", "gpuBudget"],
)
def test_an_edit_of_the_spec_frees_the_fleet_at_once_and_the_next_look_chooses_anew(
    edited: PoolSpec,
) -> None:
    level = promised(Cover(), lived([(12.0, 3600.0)]))
    before = looked(level, situation=known(feasible=True))
    odd = replace(before, cover=replace(before.cover, floors=dict.fromkeys(Role, 9)))

    same = looked(odd, at_s=5.0, situation=known(feasible=True))
    freed = looked(odd, at_s=5.0, situation=known(feasible=True), spec=edited)
    after = looked(freed, at_s=65.0, situation=known(feasible=True), spec=edited)

    assert same.cover == odd.cover
    # What is held stays until then: a tighter bound never wants fewer.
    assert freed.cover.floors == odd.cover.floors
    assert freed.cover.most == {}
    assert after.cover.floors != odd.cover.floors


def test_what_an_old_slo_wanted_is_no_surprise_of_a_new_one() -> None:
    # Decode streams cost four times as much under the new bound.
    dear = replace(WORK, busy={**WORK.busy, Role.DECODE: 4 * WORK.busy[Role.DECODE]})
    edited = make_spec(high=12, tpot_s=0.01)
    past = promised(Cover(), lived([(LOW_RPS, 600.0), (HIGH_RPS, 600.0)]))
    before = looked(past, situation=known(feasible=True))

    same = looked(before, at_s=5.0, situation=known(feasible=True))
    after = looked(before, at_s=5.0, situation=known(feasible=True, work=dear), spec=edited)

    assert same.history.wants == before.history.wants
    assert after.history.wants[Role.PREFILL] == before.history.wants[Role.PREFILL]
    assert after.history.wants[Role.DECODE] == tuple(
        4 * want for want in before.history.wants[Role.DECODE]
    )


@pytest.mark.parametrize("between", ["infeasible", "unknown", "at once"])
def test_an_edit_that_is_taken_back_leaves_the_past_as_it_was(between: str) -> None:
    dear = replace(WORK, busy={**WORK.busy, Role.DECODE: 4 * WORK.busy[Role.DECODE]})
    situations: dict[str, Situation | None] = {
        "infeasible": known(feasible=False, work=dear),
        "unknown": None,
        "at once": known(feasible=True, work=dear),
    }
    past = promised(Cover(), lived([(LOW_RPS, 600.0), (HIGH_RPS, 600.0)]))
    before = looked(past, situation=known(feasible=True))

    edited = make_spec(high=12, tpot_s=0.01)
    during = looked(before, at_s=5.0, situation=situations[between], spec=edited)
    after = looked(during, at_s=10.0, situation=known(feasible=True))

    assert after.history.wants == before.history.wants


def test_an_edit_while_requests_are_unknown_converts_the_past_once_they_are_known() -> None:
    dear = replace(WORK, busy={**WORK.busy, Role.DECODE: 4 * WORK.busy[Role.DECODE]})
    edited = make_spec(high=12, tpot_s=0.01)
    past = promised(Cover(), lived([(LOW_RPS, 600.0), (HIGH_RPS, 600.0)]))
    before = looked(past, situation=known(feasible=True))

    blind = looked(before, at_s=5.0, spec=edited)
    after = looked(blind, at_s=10.0, situation=known(feasible=True, work=dear), spec=edited)

    assert blind.history.wants == before.history.wants
    assert after.history.wants[Role.DECODE] == tuple(
        4 * want for want in before.history.wants[Role.DECODE]
    )


@pytest.mark.parametrize("cost", [0.0, 1e300])
def test_a_cost_that_cannot_be_converts_no_want_by_more_than_tenfold(cost: float) -> None:
    odd = replace(WORK, busy=dict.fromkeys(Role, cost))
    edited = make_spec(high=12, tpot_s=0.01)
    past = promised(Cover(), lived([(HIGH_RPS, 1200.0)]))
    before = looked(past, situation=known(feasible=True))
    strange = looked(past, situation=known(feasible=True, work=odd))

    there = looked(before, at_s=5.0, situation=known(feasible=True, work=odd), spec=edited)
    back = looked(strange, at_s=5.0, situation=known(feasible=True), spec=edited)

    for after in (there, back):
        for role in Role:
            most = 10 * max(before.history.wants[role])
            assert all(1 <= want <= most for want in after.history.wants[role])


def test_traffic_that_is_no_longer_level_is_looked_into_at_once() -> None:
    level = promised(Cover(), lived([(12.0, 3600.0)]))
    before = looked(level, situation=known(feasible=True))

    after = looked(before, at_s=25.0, situation=known(feasible=True))

    assert before.cover.level_s is not None
    assert after.cover.level_s is None


def test_longer_answers_free_the_decode_fleet_of_level_traffic_and_leave_prefill() -> None:
    history = lived([(12.0, 3600.0)])
    even = replace(history, output_tokens=(300,) * len(history))
    longer = replace(history, output_tokens=(*even.output_tokens[:-1], 900))

    kept = looked(promised(Cover(), even), situation=known(feasible=True)).cover
    freed = looked(promised(Cover(), longer), situation=known(feasible=True)).cover

    assert set(kept.floors) == set(kept.most) == set(Role)
    assert kept.level_s is not None
    assert freed.floor(Role.PREFILL) == kept.floor(Role.PREFILL)
    assert set(freed.floors) == set(freed.most) == {Role.PREFILL}


def test_late_requests_that_really_came_prove_an_insurance_short() -> None:
    level = promised(Cover(), lived([(12.0, 3600.0)]))
    before = looked(level, situation=known(feasible=True))
    late = ErrorBudget(
        folded_s=int(NOW_S) + 100, finished=(1000,) * 60, good=(1000,) * 50 + (800,) * 10
    )
    due = replace(before.cover, since_s=int(NOW_S) - 600, end_s=None)

    after = looked(replace(before, cover=due, budget=late), situation=known(feasible=True))

    assert after.cover.short is not None
    assert after.cover.short.floors == before.cover.floors
    assert sum(after.cover.floors.values()) > sum(before.cover.floors.values())


def test_a_minute_in_which_requests_seem_dear_hardly_changes_what_the_past_is_played_with() -> None:
    now = promised(Cover())
    for minute in range(10):
        now = looked(now, at_s=60.0 * minute, situation=known(feasible=True))
    dear = replace(WORK, busy={role: 1.6 * busy for role, busy in WORK.busy.items()})

    after = looked(now, at_s=600.0, situation=known(feasible=True, work=dear))

    for role in Role:
        assert WORK.busy[role] < after.cover.busy[role] < 1.1 * WORK.busy[role]


def test_what_level_traffic_costs_is_measured_by_many_minutes() -> None:
    cheap = replace(WORK, busy={role: 0.7 * busy for role, busy in WORK.busy.items()})
    level = promised(Cover(), lived([(12.0, 3600.0)]))
    first = now = looked(level, situation=known(feasible=True, work=cheap))

    for _ in range(30):
        due = replace(now, cover=replace(now.cover, end_s=None))
        now = looked(due, situation=known(feasible=True))

    assert now.cover.level_s == first.cover.level_s is not None
    for role in Role:
        assert now.cover.busy[role] == pytest.approx(WORK.busy[role], rel=0.1)
    assert now.cover.tokens == WORK.mean_tokens


def test_what_proved_short_under_another_objective_proves_nothing() -> None:
    level = promised(Cover(), lived([(12.0, 3600.0)]))
    before = looked(level, situation=known(feasible=True))
    short = Short(floors=dict.fromkeys(Role, 12), hold_s=FOR_EVER_S, at_s=int(NOW_S))
    proved = replace(before, cover=replace(before.cover, short=short))

    after = looked(proved, situation=known(feasible=True), spec=make_spec(high=12, ttft_s=2.0))

    assert after.cover.short is None


def test_an_objective_out_of_reach_buys_no_insurance() -> None:
    bursts = promised(Cover())

    assert looked(bursts, situation=known(feasible=True)).cover.floors != {}
    assert looked(bursts, situation=known(feasible=False)).cover.floors == {}


def test_an_objective_that_went_out_of_reach_gives_its_insurance_back() -> None:
    assert looked(promised(), situation=known(feasible=False)).cover.floors == {}


def test_the_insurance_is_looked_into_once_a_minute() -> None:
    promise = promised(replace(STEADY, end_s=int(NOW_S) // BUCKET_S * BUCKET_S))

    soon = looked(promise, at_s=20.0, situation=known(feasible=False))

    assert soon.cover == promise.cover
    assert looked(promise, at_s=80.0, situation=known(feasible=False)).cover.floors == {}


def test_what_was_late_before_an_insurance_held_makes_it_no_stricter() -> None:
    half_late = ErrorBudget(
        folded_s=int(NOW_S) + 100, finished=(1000,) * 60, good=(500,) * 30 + (1000,) * 30
    )

    def late_share(since_s: int | None) -> float:
        promise = replace(promised(Cover(since_s=since_s)), budget=half_late)
        return looked(promise, situation=known(feasible=True), attainment=0.8).cover.late_share

    assert late_share(int(NOW_S) - 1500) > late_share(None)


def after_silence(hours: float) -> Promise:
    promise = promised(replace(STEADY, end_s=int(NOW_S)))
    for at_s in range(0, int(3600 * hours) + 1, 600):
        promise = looked(promise, at_s=at_s)
    return promise


def test_a_silence_of_minutes_ends_no_pattern() -> None:
    assert after_silence(0.5).cover.floors == STEADY.floors


def test_a_pattern_that_ended_in_silence_is_released_after_an_hour() -> None:
    assert after_silence(1.5).cover.floors == {}


def test_hours_of_which_nothing_is_known_end_no_pattern() -> None:
    history = lived([*lulls_and_bursts(6), (0.0, 7200.0)])
    unseen = len(history) - 7200 // BUCKET_S
    holes = replace(history, requests=(*history.requests[:unseen], *[UNKNOWN] * (7200 // BUCKET_S)))

    assert looked(promised(history=holes)).cover.floors == STEADY.floors


def at_rest(spec: PoolSpec, *, prefill: int, decode: int) -> Decision:
    """Return the decision for a pool at rest that is insured against bursts."""
    memory = Memory(promise=promised(replace(STEADY, end_s=int(NOW_S))))
    decision = None
    for step in range(0, 300, 5):
        now_s = NOW_S + step
        seen = observe(
            prefill=prefill,
            decode=decode,
            now_s=now_s,
            routers=[report(now_s=now_s, started_s=NOW_S - 2000.0)],
        )
        decision, memory = decide(spec, seen, memory, now_s)
    assert decision is not None
    return decision


def test_a_role_that_is_held_for_bursts_says_so() -> None:
    prefill = at_rest(make_spec(high=8), prefill=5, decode=2).roles[Role.PREFILL]

    assert (prefill.to, prefill.reason) == (5, Reason.RECURRING_BURSTS)
    assert prefill.sentence == (
        "prefill stays at 5: bursts of about 20 requests/s arrived 6 times in the last 30 minutes;"
        " 40 % of their requests would be late with 1 replica fewer"
    )


def test_a_lull_gives_back_what_is_beyond_the_insurance() -> None:
    assert at_rest(make_spec(high=8), prefill=7, decode=2).roles[Role.PREFILL].to == 5


def test_the_role_of_another_owner_is_not_held() -> None:
    spec = make_spec(high=8, managed={Role.PREFILL: False})

    assert at_rest(spec, prefill=1, decode=2).roles[Role.PREFILL].reason is Reason.NOT_MANAGED


def test_an_insurance_stays_inside_the_gpu_budget() -> None:
    decision = at_rest(make_spec(high=8, gpu_budget=4), prefill=2, decode=2)

    assert sum(plan.to for plan in decision.roles.values()) <= 4


def test_the_window_of_shrinking_is_never_less_than_the_users() -> None:
    held = Promise(cover=Cover(hold_s=180.0))

    assert held.patient(make_spec(stabilization_s=60.0)).stabilization_s == 180.0
    assert held.patient(make_spec(stabilization_s=600.0)).stabilization_s == 600.0


def test_a_restart_loses_nothing_of_a_promise() -> None:
    promise = replace(
        promised(covered(lulls_and_bursts(6))),
        budget=ErrorBudget(folded_s=7, minute=1, finished=(3,), good=(2,)),
    )

    assert memory_from_json(memory_to_json(Memory(promise=promise))).promise == promise


def fullest() -> Promise:
    """Return every column as long as it gets, with the counts of a very busy pool."""
    buckets = KEPT_S // BUCKET_S
    return Promise(
        budget=ErrorBudget(
            folded_s=int(NOW_S),
            minute=29_833_333,
            finished=(60_000,) * 360,
            good=(59_000,) * 360,
            hour=497_222,
            hourly_finished=(3_600_000,) * 720,
            hourly_good=(3_599_000,) * 720,
        ),
        history=DemandHistory(
            end_s=int(NOW_S),
            requests=(20_000,) * buckets,
            prompt_tokens=(40_000_000,) * buckets,
            peaks=(9_000,) * buckets,
            wants=dict.fromkeys(Role, (100,) * buckets),
        ),
        cover=STEADY,
    )


def test_the_fullest_promise_takes_less_than_64_kib_of_a_config_map() -> None:
    assert len(memory_to_json(Memory(promise=fullest()))) - len(memory_to_json(Memory())) < LARGE
