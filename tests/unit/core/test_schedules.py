"""Which floors schedules raise, and from when on."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_operator.core.decide import decide
from tandem_operator.core.memory import Memory
from tandem_operator.core.role import Role
from tandem_operator.core.schedules import Called, called
from tandem_operator.core.spec import Period, PoolSpec
from tests.unit.core.scene import NOW_S, make_spec, observe

LEAD_S = 95.0
NONE = dict.fromkeys(Role, 0)


def period(
    start_s: float, end_s: float | None = 36_000.0, *, name: str = "office", **floors: int
) -> Period:
    """A period around `NOW_S`."""
    return Period(
        schedule=name,
        floors={Role(role): count for role, count in floors.items()},
        start_s=NOW_S + start_s,
        end_s=None if end_s is None else NOW_S + end_s,
        begins="08:00 UTC",
        ends=None if end_s is None else "18:00 UTC",
    )


def now(
    *periods: Period,
    spec: PoolSpec | None = None,
    at_s: float = 0.0,
    early_s: float | None = None,
    lead_s: float = LEAD_S,
) -> Called:
    return called(
        replace(spec or make_spec(), periods=periods),
        asked=NONE,
        lead_s=lead_s,
        early_s=early_s,
        now_s=NOW_S + at_s,
    )


@pytest.mark.parametrize(
    ("at_s", "floor"),
    [(-96.0, None), (-95.0, 3), (0.0, 3), (35_999.0, 3), (36_000.0, None)],
)
def test_a_floor_rises_one_start_before_its_hours_and_falls_with_them(
    at_s: float, floor: int | None
) -> None:
    found = now(period(0.0, prefill=3), at_s=at_s)

    assert found.floors.get(Role.PREFILL) == floor


@pytest.mark.parametrize(("before_s", "asked"), [(87.0, 1), (84.0, 3)])
def test_pods_are_called_a_start_and_two_ticks_early(before_s: float, asked: int) -> None:
    spec = replace(make_spec(), periods=(period(before_s, prefill=3),))

    decision, _ = decide(spec, observe(), Memory(), NOW_S)

    assert decision.roles[Role.PREFILL].to == asked


def test_the_other_role_keeps_its_own_minimum() -> None:
    found = now(period(-1.0, prefill=3), spec=make_spec(low=2))

    assert found.floors == {Role.PREFILL: 3, Role.DECODE: 2}
    assert found.raises == {Role.PREFILL}


def test_no_schedule_lowers_the_minimum_of_the_spec() -> None:
    spec = make_spec(low=3)

    assert now(period(-1.0, prefill=1), spec=spec).raised(spec) == spec


def test_a_start_that_was_near_stays_near_when_starts_turn_out_shorter() -> None:
    """The pods that were asked for came up quickly: that is no reason to send them away again."""
    first = now(period(0.0, prefill=3), at_s=-90.0)
    later = now(period(0.0, prefill=3), at_s=-70.0, early_s=first.early_s, lead_s=25.0)

    assert later.floors == first.floors
    assert later.early_s == LEAD_S


def test_a_clock_that_is_set_back_a_little_sends_no_pod_away() -> None:
    first = now(period(0.0, prefill=3), at_s=-95.0)

    assert now(period(0.0, prefill=3), at_s=-155.0, early_s=first.early_s).floors == first.floors
    assert not now(period(0.0, prefill=3), at_s=-3_600.0, early_s=first.early_s).floors


def test_nothing_is_remembered_once_a_period_has_begun() -> None:
    assert now(period(0.0, prefill=3), at_s=1.0, early_s=LEAD_S).early_s is None


def test_hours_that_follow_at_once_leave_no_gap() -> None:
    periods = (period(-100.0, 0.0, prefill=3), period(0.0, 100.0, name="evening", prefill=3))

    assert {now(*periods, at_s=at_s).floors[Role.PREFILL] for at_s in range(-195, 100, 5)} == {3}


def test_floors_give_way_to_the_budget() -> None:
    periods = (period(-1.0, prefill=4), period(-1.0, name="other", decode=4))
    spec = make_spec(gpu_budget=6)

    floors = now(*periods, spec=spec).floors

    assert sum(floors.values()) == 6
    assert min(floors.values()) == 3


def test_a_role_of_another_owner_is_left_as_it_is() -> None:
    spec = make_spec(managed={Role.PREFILL: False})
    found = now(period(-1.0, prefill=3, decode=3), spec=spec).raised(spec)

    assert found.roles[Role.PREFILL] == spec.roles[Role.PREFILL]
    assert found.roles[Role.DECODE].min_replicas == 3


@st.composite
def periods(draw: st.DrawFn) -> Period:
    start_s = draw(st.floats(-1e5, 1e5))
    floors = draw(st.dictionaries(st.sampled_from([r.value for r in Role]), st.integers(1, 12)))
    lasts_s = draw(st.none() | st.floats(60.0, 1e5))
    return period(start_s, None if lasts_s is None else start_s + lasts_s, **floors)


SPECS = st.builds(make_spec, low=st.integers(1, 4), high=st.integers(4, 8))


@given(found=st.lists(periods(), max_size=6), spec=SPECS, early_s=st.none() | st.floats(1.0, 600.0))
def test_no_floor_is_above_the_most_or_below_the_least(
    found: list[Period], spec: PoolSpec, early_s: float | None
) -> None:
    raised = now(*found, spec=spec, early_s=early_s).raised(spec)

    for role, bounds in raised.roles.items():
        assert spec.roles[role].min_replicas <= bounds.min_replicas <= bounds.max_replicas


@given(found=st.lists(periods(), max_size=6), one=periods(), spec=SPECS)
def test_another_schedule_lowers_no_floor(found: list[Period], one: Period, spec: PoolSpec) -> None:
    before, after = now(*found, spec=spec), now(*found, one, spec=spec)

    for role in Role:
        low = spec.roles[role].min_replicas
        assert after.floors.get(role, low) >= before.floors.get(role, low)


@given(found=st.lists(periods(), max_size=6), budget=st.integers(8, 16))
def test_floors_fit_into_the_budget(found: list[Period], budget: int) -> None:
    floors = now(*found, spec=make_spec(low=4, gpu_budget=budget)).floors

    assert sum(floors.values()) <= budget
