"""The usual cost of requests: one odd minute changes it little, other requests do so at once."""

from dataclasses import replace

import pytest

from tandem_operator.core.objective.usual_cost import as_usual, usual_of
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.demand import Work
from tandem_operator.core.tuning.tuning import TUNING
from tests.unit.core.bursts import WORK

LOOKS_KEPT = TUNING.objective.usual_looks


def dearer(times: float) -> Work:
    return replace(WORK, busy={role: times * busy for role, busy in WORK.busy.items()})


def longer(role: Role, times: float) -> Work:
    """Return the requests of which a role has so many times as much to do."""
    return replace(
        WORK,
        busy={**WORK.busy, role: times * WORK.busy[role]},
        mean_tokens={**WORK.mean_tokens, role: times * WORK.mean_tokens[role]},
    )


@pytest.mark.parametrize("role", Role)
def test_one_dear_minute_changes_the_usual_cost_by_little(role: Role) -> None:
    usual = usual_of({}, WORK)
    for _ in range(LOOKS_KEPT):
        usual = usual_of(usual, WORK)

    after = usual_of(usual, dearer(1.6))

    assert as_usual(WORK, after).busy[role] == pytest.approx(1.04 * WORK.busy[role], rel=0.01)


@pytest.mark.parametrize("role", Role)
def test_a_cost_that_stays_becomes_the_usual_one(role: Role) -> None:
    usual = usual_of({}, WORK)
    for _ in range(10 * LOOKS_KEPT):
        usual = usual_of(usual, dearer(1.3))

    assert as_usual(WORK, usual).busy[role] == pytest.approx(1.3 * WORK.busy[role], rel=0.01)


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("times", [0.4, 2.0, 3.0])
def test_requests_that_are_clearly_others_count_at_once(role: Role, times: float) -> None:
    other = longer(role, times)

    found = as_usual(other, usual_of(usual_of({}, WORK), other))

    assert found.busy == pytest.approx(other.busy)
    assert found.mean_tokens == pytest.approx(other.mean_tokens)


@pytest.mark.parametrize("role", Role)
def test_late_requests_follow_from_the_usual_cost(role: Role) -> None:
    usual = usual_of({}, WORK)

    found = as_usual(dearer(2.0), usual)

    # `dearer` has the late shares of before, at which a request cost half as much.
    assert found.late_share[role](8.0, 2) == WORK.late_share[role](4.0, 2)
