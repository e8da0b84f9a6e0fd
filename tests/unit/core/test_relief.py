"""A role's only pod on a node that is being emptied: another comes first, inside the budget."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tandem_operator.core.decide import decide
from tandem_operator.core.decision import Decision, Reason
from tandem_operator.core.memory import Memory
from tandem_operator.core.observation import Observation, PodPhase
from tandem_operator.core.role import Role
from tandem_operator.core.spec import Mode, PoolSpec
from tandem_operator.workloads.stored_memory import memory_from_json, memory_to_json
from tests.unit.core.scene import NOW_S, make_spec, observe, pods

COMING, THERE = PodPhase.STARTING, PodPhase.READY


class Story:
    """Ticks of one pool at rest whose prefill pods are as told."""

    def __init__(self, spec: PoolSpec | None = None) -> None:
        self.spec = make_spec() if spec is None else spec
        self.memory = Memory()
        self.now_s = NOW_S
        self.asked = 1

    def tick(self, *prefill: tuple[PodPhase, bool], decode: int = 1) -> Decision:
        """Look once at prefill pods, each a phase and whether its node is being emptied."""
        self.now_s += 5.0
        mine = tuple(
            replace(pods(Role.PREFILL, 1, phase=phase)[0], name=f"prefill-{index}", leaving=leaving)
            for index, (phase, leaving) in enumerate(prefill)
        )
        seen = self._seen(mine, decode)
        decision, self.memory = decide(self.spec, seen, self.memory, self.now_s)
        self.asked = decision.roles[Role.PREFILL].to
        return decision

    def _seen(self, mine: Sequence[object], decode: int) -> Observation:
        return observe(
            now_s=self.now_s,
            prefill=0,
            decode=decode,
            extra_pods=mine,
            replicas={Role.PREFILL: self.asked, Role.DECODE: decode},
        )


def step(decision: Decision) -> tuple[int, int, Reason]:
    prefill = decision.roles[Role.PREFILL]
    return prefill.current, prefill.to, prefill.reason


def test_another_pod_comes_before_the_only_one_goes() -> None:
    story = Story()

    steps = [
        step(story.tick((THERE, False))),
        step(story.tick((THERE, True))),
        step(story.tick((THERE, True), (COMING, False))),
        step(story.tick((THERE, True), (THERE, False))),
        step(story.tick((PodPhase.TERMINATING, True), (THERE, False))),
    ]

    assert [(before, after) for before, after, _ in steps] == [
        (1, 1),
        (1, 2),
        (2, 2),
        (2, 1),
        (1, 1),
    ]
    assert {why for *_, why in steps[1:4]} == {Reason.NODE_DRAIN}


def test_the_sentence_says_why_the_pod_is_bought_and_why_it_goes() -> None:
    story = Story()

    bought = story.tick((THERE, True)).sentence
    gone = story.tick((THERE, True), (THERE, False)).sentence

    assert bought.startswith("prefill 1 -> 2: the node of its only Ready pod is being drained")
    assert gone.startswith("prefill 2 -> 1: another pod is Ready")


def test_a_relief_may_go_beyond_max_replicas_as_a_rollout_may() -> None:
    story = Story(make_spec(high=1))

    assert step(story.tick((THERE, True)))[1] == 2
    assert step(story.tick((THERE, True), (COMING, False)))[1] == 2


def test_without_room_in_the_budget_the_pod_stays_and_the_pool_says_what_to_do() -> None:
    story = Story(make_spec(gpu_budget=2))

    decision = story.tick((THERE, True))

    assert step(decision) == (1, 1, Reason.NODE_DRAIN)
    assert decision.drain_blocked == (
        "The node of prefill-0 is being drained, but gpuBudget 2 has no room for another pod"
        "; raise it by 1, or delete the pod"
    )


def test_a_pod_that_terminates_still_takes_the_room_of_a_relief() -> None:
    story = Story(make_spec(gpu_budget=3))

    assert step(story.tick((THERE, True), (PodPhase.TERMINATING, False)))[1] == 1
    assert step(story.tick((THERE, True)))[1] == 2


def test_no_two_roles_are_relieved_with_the_room_for_one() -> None:
    spec = make_spec(gpu_budget=3)
    seen = observe(prefill=1, decode=1)
    leaving = tuple(replace(pod, leaving=True) for pod in seen.pods)

    decision, _ = decide(spec, replace(seen, pods=leaving), Memory(), NOW_S)

    assert sum(each.to for each in decision.roles.values()) == 3
    assert decision.drain_blocked is not None


def test_a_node_that_takes_pods_again_ends_the_relief() -> None:
    story = Story()
    story.tick((THERE, True))

    assert step(story.tick((THERE, False), (COMING, False)))[:2] == (2, 1)


def test_a_relief_replica_stays_while_no_pod_serves() -> None:
    story = Story()
    story.tick((THERE, True))

    assert step(story.tick((COMING, False), (COMING, False)))[1] == 2


def test_a_restarted_operator_still_knows_which_replica_was_a_relief() -> None:
    story = Story()
    story.tick((THERE, True))
    story.memory = memory_from_json(memory_to_json(story.memory))

    assert step(story.tick((THERE, True), (THERE, False)))[:2] == (2, 1)


def test_a_replica_that_the_user_asks_for_meanwhile_stays() -> None:
    story = Story()
    story.tick((THERE, True))
    story.spec = make_spec(low=2)

    assert step(story.tick((THERE, True), (THERE, False)))[1] == 2
    assert story.memory.relieved == ()


def test_of_two_pods_on_such_nodes_none_needs_a_relief() -> None:
    # The disruption budget lets one go at a time, and waits for its replacement.
    story = Story(make_spec(low=2))
    story.asked = 2

    assert step(story.tick((THERE, True), (THERE, True)))[:2] == (2, 2)


def test_the_only_ready_pod_of_two_is_not_left_alone_by_a_shrink() -> None:
    story = Story(make_spec(high=1))
    story.asked = 2

    assert step(story.tick((THERE, True), (COMING, False)))[1] == 2
    assert step(story.tick((THERE, True), (THERE, False)))[1] == 1


@pytest.mark.parametrize(
    "spec",
    [
        make_spec(mode=Mode.PAUSED),
        make_spec(mode=Mode.RECOMMEND),
        make_spec(managed={Role.PREFILL: False}),
    ],
)
def test_a_count_of_another_owner_is_left_alone(spec: PoolSpec) -> None:
    assert step(Story(spec).tick((THERE, True)))[:2] == (1, 1)
