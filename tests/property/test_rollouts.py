"""No rollout holds more GPUs than the budget, whenever pods start and end; and each one ends."""

import dataclasses
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_operator.core.role import Role
from tandem_operator.workloads.pass_plan import plan
from tests.property.controllers import become_ready, fleets_of, with_pods
from tests.unit.workloads.cluster import NOW_S, after, pool, running

TICKS = 400
EDITS = {
    "both": {"engine": {"blockSize": 32}},
    "decode": {"decode": {"podTemplate": {"metadata": {"annotations": {"edited": "yes"}}}}},
    "prefill": {"prefill": {"podTemplate": {"metadata": {"annotations": {"edited": "yes"}}}}},
}


@dataclasses.dataclass
class Rollout:
    """A pool in a rollout, tick by tick."""

    world: object
    edited: object
    budget: int

    def __post_init__(self):
        self.fleets = fleets_of(self.world)
        self.now_s = NOW_S

    def tick(self):
        self.now_s += 1.0
        seen = with_pods(dataclasses.replace(self.world, pool=self.edited), self.fleets)
        self.world = after(seen, plan(seen, now_s=self.now_s))
        self.edited = self.world.pool
        self.reconcile()

    def reconcile(self):
        for fleet in self.fleets.values():
            fleet.reconcile(self.world)
        held = sum(fleet.held for fleet in self.fleets.values())
        assert held <= self.budget, f"{held} GPUs held with a budget of {self.budget}"

    @property
    def done(self):
        specs = [
            each["spec"]
            for each in self.world.children
            if each["kind"] == "Deployment" and not each["metadata"]["name"].endswith("router")
        ]
        return (
            all(
                fleet.held == fleet.ready == spec["replicas"]
                and len(fleet.revisions) == 1
                and "paused" not in spec
                for fleet, spec in zip(
                    (self.fleets[role] for role in Role),
                    sorted(specs, key=lambda s: "prefill" not in str(s["selector"])),
                    strict=True,
                )
            )
            and self.follows_edit
        )

    @property
    def follows_edit(self):
        return all(
            fleet.revisions
            == {
                each["spec"]["template"]["metadata"]["annotations"]["tandem-inference.io/template"]
                for each in self.world.children
                if each["kind"] == "Deployment" and each["metadata"]["name"] == f"tiny-{role}"
            }
            for role, fleet in self.fleets.items()
        )


def rollout_of(edit, *, prefill, decode, budget, minimums=(1, 1)):
    bounds = {
        "prefill": {"minReplicas": minimums[0]},
        "decode": {"minReplicas": minimums[1]},
        "scaling": {"gpuBudget": budget},
    }
    live = running(bounds, prefill=prefill, decode=decode)
    edited = pool(bounds, EDITS[edit], generation=2, status=live.pool.get("status"))
    return Rollout(live, edited, budget)


@given(data=st.data())
def test_no_rollout_exceeds_the_budget_and_every_rollout_ends(data):
    counts = [data.draw(st.integers(1, 4), label=role) for role in Role]
    minimums = [data.draw(st.integers(1, count)) for count in counts]
    spare = data.draw(st.integers(0, 4), label="spare")
    edit = data.draw(st.sampled_from(sorted(EDITS)))
    rollout = rollout_of(
        edit,
        prefill=counts[0],
        decode=counts[1],
        budget=sum(counts) + spare,
        minimums=minimums,
    )
    chance = random.Random(data.draw(st.integers(0, 999), label="seed"))
    slow_start, slow_end = (data.draw(st.sampled_from([0.0, 0.5, 0.9])) for _ in range(2))

    for _ in range(TICKS):
        started = [each for fleet in rollout.fleets.values() for each in fleet.start()]
        rollout.tick()
        for fleet in rollout.fleets.values():
            # A pod takes longer to start than a tick.
            for each in fleet.start():
                if each in started and chance.random() >= slow_start:
                    become_ready(each)
            for each in fleet.leaving():
                if chance.random() >= slow_end:
                    fleet.end(each)
            rollout.reconcile()
        if rollout.done:
            return
    raise AssertionError("the rollout never ends")


@pytest.mark.parametrize("spare", [0, 1, 2])
def test_a_fleet_of_several_serves_throughout_a_rollout_of_both_roles(spare):
    rollout = rollout_of("both", prefill=2, decode=3, budget=5 + spare)

    for _ in range(TICKS):
        started = [each for fleet in rollout.fleets.values() for each in fleet.start()]
        rollout.tick()
        assert min(fleet.ready for fleet in rollout.fleets.values()) >= 1
        for fleet in rollout.fleets.values():
            for each in started:
                become_ready(each)
            for each in fleet.leaving():
                fleet.end(each)
        if rollout.done:
            return
    raise AssertionError("the rollout never ends")
