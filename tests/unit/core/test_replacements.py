"""A sick pod has a stand-in, as far as the pool may have one."""

from dataclasses import replace

import pytest

from tandem_operator.core.guard.replacements import with_stand_ins
from tandem_operator.core.observation import PodPhase, PodState
from tandem_operator.core.observe.role_pods import Starts, fleet
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.replica_counts import Choice
from tests.unit.core.scene import NOW_S, make_spec, observe, pods

SICK = PodPhase.STARTING
UNSCHEDULED = PodPhase.UNSCHEDULED


def target(*troubled: PodState, choice: int = 4, ready: int = 4, high: int = 8) -> dict[Role, int]:
    seen = observe(prefill=ready, decode=2, extra_pods=troubled)
    fleets = {role: fleet(seen, role, Starts(), NOW_S) for role in Role}
    counts = {Role.PREFILL: choice, Role.DECODE: 2}
    chosen = Choice(wanted=counts, target=counts)
    return dict(with_stand_ins(chosen, fleets, spec=make_spec(high=high)).target)


def sick(count: int, **more: object) -> tuple[PodState, ...]:
    found = pods(Role.PREFILL, count, phase=SICK, problem="CrashLoopBackOff")
    return tuple(replace(pod, **more) for pod in found)  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [0, 1, 2])
def test_each_sick_pod_has_a_stand_in_of_its_own_role(count: int) -> None:
    assert target(*sick(count)) == {Role.PREFILL: 4 + count, Role.DECODE: 2}


def test_no_stand_in_goes_beyond_the_most_replicas() -> None:
    assert target(*sick(2), high=5) == {Role.PREFILL: 5, Role.DECODE: 2}


def test_a_target_beyond_the_most_replicas_is_not_lowered() -> None:
    assert target(*sick(1), choice=6, high=5)[Role.PREFILL] == 6


def test_pods_without_a_node_or_that_fail_alike_have_no_stand_in() -> None:
    waiting = pods(Role.PREFILL, 1, phase=UNSCHEDULED)

    assert target(*waiting)[Role.PREFILL] == 4
    assert target(*sick(3))[Role.PREFILL] == 4
    assert target(*sick(1, revision="r2"))[Role.PREFILL] == 4
