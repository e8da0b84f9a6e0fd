"""What a role's pods are worth: how long they take to start, and which of them will not."""

from dataclasses import replace

import pytest

from tandem_operator.core.observation import PodPhase, PodState
from tandem_operator.core.observe.fleet import Fleet, Starts, fleet
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


def sorted_out(*extra: PodState, ready: int = 4) -> Fleet:
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


def test_a_pod_that_was_ready_and_restarts_begins_its_start_anew() -> None:
    restarts = replace(failing()[0], problem=None, unready_s=NOW_S - 20.0)
    gone = replace(restarts, unready_s=NOW_S - 500.0)

    assert sorted_out(restarts).starting == (restarts,)
    assert sorted_out(gone).stuck == (gone,)


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
