"""Pools with schedules, on random histories: what their decisions must never do."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tandem_operator.core.decide import decide
from tandem_operator.core.memory import Memory
from tandem_operator.core.role import Role
from tandem_operator.core.spec import Mode, Period
from tandem_operator.workloads.stored_memory import memory_from_json, memory_to_json
from tests.property.observations import START_S, History, gpus_held_and_grown, histories, run

AT_ZERO = dict.fromkeys(Role, 0)


@st.composite
def periods(draw: st.DrawFn) -> Period:
    start_s = START_S + draw(st.sampled_from([-4000.0, -10.0, 0.0, 30.0, 60.0, 4000.0]))
    lasts_s = draw(st.sampled_from([None, 60.0, 3600.0]))
    return Period(
        schedule=draw(st.sampled_from(["day", "night"])),
        floors=draw(st.dictionaries(st.sampled_from(list(Role)), st.integers(1, 9))),
        start_s=start_s,
        end_s=None if lasts_s is None else start_s + lasts_s,
        begins="08:00 UTC",
        ends=None if lasts_s is None else "18:00 UTC",
    )


@st.composite
def scheduled(draw: st.DrawFn) -> History:
    """Draw a history of a pool with schedules, which may sleep and is at zero now and then."""
    history = draw(histories())
    spec = replace(
        history.spec,
        periods=tuple(draw(st.lists(periods(), min_size=1, max_size=4))),
        sleep_after_s=draw(st.sampled_from([None, 60.0])),
    )
    ticks = tuple(
        (now_s, replace(seen, replicas=AT_ZERO) if draw(st.booleans()) else seen)
        for now_s, seen in history.ticks
    )
    return History(spec, ticks)


@given(scheduled())
def test_no_schedule_asks_for_more_than_the_bounds_and_the_budget_allow(history: History) -> None:
    spec = history.spec
    for _, seen, decision, _ in run(history):
        for role, plan in decision.roles.items():
            assert plan.to <= spec.roles[role].max_replicas
        if spec.gpu_budget is not None:
            held, grown = gpus_held_and_grown(spec, seen, decision)
            assert grown == 0 or held + grown <= spec.gpu_budget


@given(scheduled())
def test_a_pool_has_its_floors_in_known_hours_unless_the_budget_is_short(history: History) -> None:
    spec = history.spec
    for now_s, _, decision, _ in run(history):
        in_force = [each for each in spec.periods if each.start_s <= now_s and not each.over(now_s)]
        if not in_force or spec.gpu_budget is not None or spec.mode is not Mode.AUTO:
            continue
        for role, plan in decision.roles.items():
            bounds = spec.roles[role]
            floor = max(each.floors.get(role, 0) for each in in_force)
            assert not bounds.managed or plan.to >= min(floor, bounds.max_replicas)


@given(scheduled())
def test_a_pool_of_its_own_counts_is_not_asleep_in_known_hours(history: History) -> None:
    spec = history.spec
    for now_s, _, _, memory in run(history):
        if any(each.start_s <= now_s and not each.over(now_s) for each in spec.periods):
            assert not memory.rest.asleep or spec.mode is not Mode.AUTO


@given(scheduled())
def test_a_restarted_operator_goes_on_as_one_that_was_not(history: History) -> None:
    memory = Memory()
    for now_s, seen in history.ticks:
        stored = memory_from_json(memory_to_json(memory))
        again, _ = decide(history.spec, seen, stored, now_s)
        decision, memory = decide(history.spec, seen, memory, now_s)
        assert again == decision
