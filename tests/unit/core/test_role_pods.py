"""The worth of a role's pods: how long they take to start, and which of them will not."""

from dataclasses import replace

import pytest

from tandem_operator.core.observation import PodPhase, PodState
from tandem_operator.core.observe.role_pods import RolePods, Start, Starts, fleet
from tandem_operator.core.role import Role
from tests.unit.core.scene import NOW_S, observe, pods


def started(name: str, *, created_s: float, seconds: float | None) -> PodState:
    (pod,) = pods(Role.PREFILL, 1)
    return replace(
        pod,
        name=name,
        created_s=created_s,
        ready_s=None if seconds is None else created_s + seconds,
        phase=PodPhase.STARTING if seconds is None else PodPhase.READY,
    )


def sorted_out(*extra: PodState, ready: int = 4) -> RolePods:
    seen = observe(prefill=ready, extra_pods=extra)
    return fleet(seen, Role.PREFILL, Starts().learn(seen.pods, last_look_s=None), NOW_S)


def failing(count: int = 1, **more: object) -> tuple[PodState, ...]:
    return pods(Role.PREFILL, count, phase=PodPhase.STARTING, problem="CrashLoopBackOff", **more)


def test_a_start_that_was_watched_counts_once() -> None:
    coming = started("p", created_s=NOW_S, seconds=None)
    ready = started("p", created_s=NOW_S, seconds=300.0)

    starts = Starts().learn((coming,), last_look_s=NOW_S - 5.0)
    starts = starts.learn((ready,), last_look_s=NOW_S + 295.0)
    again = starts.learn((ready,), last_look_s=NOW_S + 300.0)

    assert starts.expected_s(Role.PREFILL) == 300.0
    assert again == starts


def test_a_pod_that_was_ready_before_teaches_nothing_when_it_is_ready_again() -> None:
    """Its Ready condition tells of the last time, an hour after its creation."""
    flapped = started("old", created_s=NOW_S - 3500.0, seconds=3495.0)

    starts = Starts().learn((flapped,), last_look_s=NOW_S - 5.0)

    assert starts.measured == {}


def test_the_first_look_of_all_takes_what_it_finds_less_what_is_plainly_no_start() -> None:
    ready = [started(f"p{i}", created_s=NOW_S - 3600.0, seconds=60.0 + i) for i in range(3)]
    flapped = started("p9", created_s=NOW_S - 3500.0, seconds=3495.0)

    starts = Starts().learn((flapped, *ready), last_look_s=None)

    assert starts.expected_s(Role.PREFILL) == 62.0


def test_a_start_behind_a_gate_begins_on_the_node() -> None:
    """Time that a pod waits for Kueue is no cold start, and the forecast looks one start ahead."""
    gated = replace(
        started("p", created_s=NOW_S, seconds=None), phase=PodPhase.UNSCHEDULED, gates=("kueue",)
    )
    let_go = replace(gated, gates=(), phase=PodPhase.STARTING, scheduled_s=NOW_S + 1800.0)
    ready = replace(let_go, phase=PodPhase.READY, ready_s=NOW_S + 1890.0)

    starts = Starts()
    for pod, at_s in ((gated, 0.0), (gated, 900.0), (let_go, 1805.0), (ready, 1895.0)):
        starts = starts.learn((pod,), last_look_s=NOW_S + at_s - 5.0)

    assert starts.expected_s(Role.PREFILL) == 90.0
    assert starts.held == ()


def test_a_start_that_waited_for_a_node_counts_whole() -> None:
    """A node that has to come first takes its time again for the next pod."""
    waiting = replace(started("p", created_s=NOW_S, seconds=None), phase=PodPhase.UNSCHEDULED)
    ready = replace(started("p", created_s=NOW_S, seconds=300.0), scheduled_s=NOW_S + 200.0)

    starts = Starts().learn((waiting,), last_look_s=NOW_S - 5.0)
    starts = starts.learn((ready,), last_look_s=NOW_S + 295.0)

    assert starts.expected_s(Role.PREFILL) == 300.0


@pytest.mark.parametrize("seconds", [0.0, -5.0, 3601.0])
def test_what_cannot_be_a_start_is_not_learned(seconds: float) -> None:
    odd = started("odd", created_s=NOW_S, seconds=seconds)

    assert Starts().learn((odd,), last_look_s=NOW_S).measured == {}


def test_a_pod_that_was_ready_and_restarts_begins_its_start_anew() -> None:
    restarts = replace(failing()[0], problem=None, unready_s=NOW_S - 20.0)
    gone = replace(restarts, unready_s=NOW_S - 500.0)

    assert sorted_out(restarts).starting == (restarts,)
    assert sorted_out(gone).stuck == (gone,)


def test_a_pod_that_was_held_back_begins_its_start_on_its_node() -> None:
    (starting,) = pods(Role.PREFILL, 1, phase=PodPhase.STARTING, created_s=NOW_S - 5000.0)
    let_go = replace(starting, scheduled_s=NOW_S - 10.0)

    assert sorted_out(starting).stuck == (starting,)
    assert sorted_out(let_go).starting == (let_go,)


def test_pods_behind_a_gate_are_stuck_and_block_growth() -> None:
    gated = pods(Role.PREFILL, 2, phase=PodPhase.UNSCHEDULED, gates=("kueue.x-k8s.io/admission",))

    found = sorted_out(*gated)

    assert found.gated == found.stuck == gated
    assert found.blocked
    assert found.starting == ()


def test_a_pod_that_fails_where_others_of_its_kind_serve_is_sick_and_blocks_nothing() -> None:
    found = sorted_out(*failing())

    assert found.sick == found.stuck == failing()
    assert not found.blocked


@pytest.mark.parametrize(
    "stuck",
    [
        failing(revision="new"),
        failing(3),
        pods(Role.PREFILL, 1, phase=PodPhase.UNSCHEDULED),
        (*failing(), *pods(Role.PREFILL, 1, phase=PodPhase.UNSCHEDULED)),
    ],
    ids=["none of its kind serves", "many fail", "no node", "one of them has no node"],
)
def test_pods_that_more_would_only_join_block_growth(stuck: tuple[PodState, ...]) -> None:
    assert sorted_out(*stuck).blocked


@pytest.mark.parametrize(("asked", "held"), [(5, 7), (3, 6), (0, 6)])
def test_what_a_role_holds_is_asked_or_exists_with_what_terminates_on_top(
    asked: int, held: int
) -> None:
    extra = pods(Role.PREFILL, 1, phase=PodPhase.STARTING) + pods(
        Role.PREFILL, 2, phase=PodPhase.TERMINATING
    )
    seen = observe(prefill=3, extra_pods=extra, replicas={Role.PREFILL: asked})

    found = fleet(seen, Role.PREFILL, Starts(), NOW_S)

    # Three are Ready, one comes and two go.
    assert (found.asked, found.terminating, found.held) == (asked, 2, held)


def test_a_role_without_a_deployment_asks_for_nothing_and_holds_its_pods() -> None:
    found = fleet(observe(prefill=2, replicas={}), Role.PREFILL, Starts(), NOW_S)

    assert (found.asked, found.held) == (None, 2)


def test_a_fleet_runs_the_revision_of_most_ready_pods_and_of_the_newest_of_as_many() -> None:
    def revision(*ready: tuple[str, float]) -> str | None:
        each = tuple(
            replace(pods(Role.PREFILL, 1)[0], name=f"p{i}", revision=revision, created_s=created_s)
            for i, (revision, created_s) in enumerate(ready)
        )
        return fleet(observe(prefill=0, extra_pods=each), Role.PREFILL, Starts(), NOW_S).revision

    assert revision(("r1", 1.0), ("r1", 2.0), ("r2", 3.0)) == "r1"
    assert revision(("r1", 1.0), ("r2", 3.0)) == "r2"
    assert revision(("r1", 3.0), ("r2", 1.0)) == "r1"
    assert revision() is None


@pytest.mark.parametrize(
    ("slowest_s", "age_s", "stuck"),
    [
        (None, 600.0, False),
        (None, 601.0, True),
        # Half as long again as the slowest, and half a minute.
        (40.0, 90.0, False),
        (40.0, 91.0, True),
    ],
)
def test_a_pod_is_stuck_that_takes_much_longer_than_any_start(
    slowest_s: float | None, age_s: float, *, stuck: bool
) -> None:
    starts = Starts()
    if slowest_s is not None:
        starts = Starts({Role.PREFILL: (Start("a", 20.0), Start("b", slowest_s))})
    (pod,) = pods(Role.PREFILL, 1, phase=PodPhase.STARTING, created_s=NOW_S - age_s)

    found = fleet(observe(prefill=0, extra_pods=(pod,)), Role.PREFILL, starts, NOW_S)

    assert (found.stuck == (pod,), found.starting == (pod,)) == (stuck, not stuck)


def test_a_role_that_never_started_a_pod_is_expected_to_start_like_the_other() -> None:
    starts = Starts({Role.DECODE: tuple(Start(f"p{i}", float(i)) for i in range(1, 11))})

    assert Starts().expected_s(Role.PREFILL) == 60.0
    assert starts.expected_s(Role.DECODE) == starts.expected_s(Role.PREFILL) == 10.0
    assert starts.quantile_s(Role.DECODE, 0.5) == 6.0


@pytest.mark.parametrize(("age_s", "stuck"), [(15.0, 0), (16.0, 2)])
def test_a_pod_with_trouble_or_without_a_node_is_stuck_as_soon_as_that_is_sure(
    age_s: float, stuck: int
) -> None:
    troubled = (*failing(), *pods(Role.PREFILL, 1, phase=PodPhase.UNSCHEDULED))
    young = tuple(replace(pod, created_s=NOW_S - age_s) for pod in troubled)

    assert len(sorted_out(*young).stuck) == stuck
