"""Schedules raise the minimums of baselines from their start to their end, and not before."""

from dataclasses import replace

import pytest

from tandem_operator.core.observation import Observation
from tandem_operator.core.role import Role
from tandem_operator.core.spec import Period, PoolSpec
from tandem_operator.sim.baselines.dynamo import Dynamo, DynamoSettings
from tandem_operator.sim.baselines.hold import Hold
from tandem_operator.sim.baselines.hpa import Hpa, HpaSettings
from tandem_operator.sim.baselines.scheduled import Scheduled
from tandem_operator.sim.baselines.signals import Signal
from tandem_operator.sim.policy import EPOCH_S, Policy, PolicyAnswer
from tests.unit.sim.setups import ENGINE, counts, make_spec
from tests.unit.sim.test_baselines import seen

START_S, END_S = 600.0, 1200.0
OFFICE = Period(
    "office", {Role.PREFILL: 4}, EPOCH_S + START_S, EPOCH_S + END_S, "08:00 UTC", "08:10 UTC"
)
SPEC = replace(make_spec(), periods=(OFFICE,))


class Counted:
    """Counts its own ticks, and wants one replica of each role."""

    name = "counted"
    EVERY_S = 180.0

    def __init__(self) -> None:
        self.ticks = 0

    def tick(self, spec: PoolSpec, observation: Observation, now_s: float) -> PolicyAnswer:
        del spec, observation, now_s
        self.ticks += 1
        return PolicyAnswer(replicas=counts(1, 1), next_tick_s=self.EVERY_S)


def hpa() -> Hpa:
    return Hpa("hpa", HpaSettings(signal=Signal.QUEUE, target=counts(10, 10)))


def prefill_at(policy: Policy, at_s: float, *, gpu_budget: int | None = None) -> int:
    spec = replace(SPEC, gpu_budget=gpu_budget)
    return policy.tick(spec, seen(1, 1), EPOCH_S + at_s).replicas[Role.PREFILL]


@pytest.mark.parametrize("baseline", [hpa(), Hold(ENGINE), Dynamo(ENGINE, DynamoSettings())])
def test_a_schedule_holds_the_minimum_of_a_baseline_while_it_is_in_force(baseline: Policy) -> None:
    policy = Scheduled(baseline)

    held = [
        prefill_at(policy, at_s) for at_s in (START_S - 1.0, START_S, END_S - 1.0, END_S + 200.0)
    ]

    assert held == [1, 4, 4, 1]


def test_a_start_waits_for_no_tick_of_the_baseline_and_brings_none_forward() -> None:
    baseline = Counted()
    policy = Scheduled(baseline)

    first = policy.tick(SPEC, seen(1, 1), EPOCH_S + START_S - 60.0)
    second = policy.tick(SPEC, seen(1, 1), EPOCH_S + START_S)

    assert first.next_tick_s == 60.0
    assert second.replicas == counts(4, 1)
    assert second.next_tick_s == Counted.EVERY_S - 60.0
    assert baseline.ticks == 1


def test_a_role_without_a_floor_keeps_its_own_minimum() -> None:
    answer = Scheduled(hpa()).tick(SPEC, seen(1, 1), EPOCH_S + START_S)

    assert answer.replicas == counts(4, 1)


def test_a_schedule_asks_for_no_more_than_the_budget() -> None:
    assert prefill_at(Scheduled(hpa()), START_S, gpu_budget=3) == 2


def test_a_baseline_with_schedules_keeps_its_name() -> None:
    assert Scheduled(hpa()).name == "hpa"
