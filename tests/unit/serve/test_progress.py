from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_engine.serve.engine_settings import EngineSettings
from tandem_engine.serve.progress import Bounds, Look, Progress, Standing, bounds_of
from tandem_engine.serve.vllm_metrics import Counters

IDLE = Counters(running=0, waiting=0, tokens=7, steps=7, kv_usage_share=0.0, asleep=False)
BUSY = replace(IDLE, running=3, kv_usage_share=0.5)
BOUNDS = Bounds(doubted_s=20.0, hung_s=60.0, blocked_s=60.0)
EVERY_S = 2.0


class Watched:
    """An engine that is looked at every two seconds."""

    def __init__(self, bounds: Bounds = BOUNDS) -> None:
        self.now_s = 1000.0
        self.progress = Progress(bounds, since_s=self.now_s)

    def look(self, look: Look, *, after_s: float = EVERY_S) -> Standing:
        self.now_s += after_s
        return self.progress.observe(look, now_s=self.now_s)

    def until(self, standing: Standing, look: Look, *, within_s: float = 1000.0) -> float:
        """Return how long the same look takes to reach that standing."""
        began_s = self.now_s
        while self.look(look) is not standing:
            assert self.now_s - began_s < within_s, f"never {standing}"
        return self.now_s - began_s


@pytest.fixture
def watched() -> Watched:
    watched = Watched()
    watched.look(Look(IDLE))
    return watched


@pytest.mark.parametrize(
    "look", [Look(None), Look(IDLE), Look(BUSY)], ids=["no answer", "idle", "busy"]
)
def test_what_stands_still_is_first_doubted_and_then_hung(watched: Watched, look: Look) -> None:
    watched.look(look)

    doubted_s = watched.until(Standing.DOUBTED, look)
    hung_s = doubted_s + watched.until(Standing.HUNG, look)

    assert doubted_s == pytest.approx(BOUNDS.doubted_s, abs=EVERY_S)
    assert hung_s == pytest.approx(BOUNDS.hung_s, abs=EVERY_S)


def test_an_idle_engine_that_completes_what_it_is_asked_is_fine(watched: Watched) -> None:
    for completed in range(100):
        assert watched.look(Look(IDLE, completed=completed), after_s=10.0) is Standing.FINE


def test_a_long_prompt_that_fills_the_cache_step_by_step_is_no_hang(watched: Watched) -> None:
    for step in range(100):
        look = Look(replace(BUSY, kv_usage_share=step / 100))
        assert watched.look(look, after_s=10.0) is Standing.FINE


def test_a_doubted_engine_is_cleared_by_a_token_and_by_nothing_else(watched: Watched) -> None:
    watched.until(Standing.DOUBTED, Look(BUSY))

    moved = replace(BUSY, kv_usage_share=0.6, waiting=9)
    assert watched.look(Look(moved)) is Standing.DOUBTED
    assert watched.look(Look(replace(moved, tokens=moved.tokens + 1))) is Standing.FINE


def test_a_token_that_the_launcher_asked_for_clears_as_well(watched: Watched) -> None:
    watched.until(Standing.DOUBTED, Look(IDLE))

    assert watched.look(Look(IDLE, completed=1)) is Standing.FINE


def test_an_engine_whose_blocks_are_all_held_is_given_what_leases_last(
    watched: Watched,
) -> None:
    blocked = Look(replace(IDLE, waiting=3, kv_usage_share=0.9))
    watched.look(blocked)

    doubted_s = watched.until(Standing.DOUBTED, blocked)
    hung_s = doubted_s + watched.until(Standing.HUNG, blocked)

    assert doubted_s == pytest.approx(BOUNDS.doubted_s + BOUNDS.blocked_s, abs=EVERY_S)
    assert hung_s == pytest.approx(BOUNDS.hung_s + BOUNDS.blocked_s, abs=EVERY_S)


def test_an_engine_that_was_put_to_sleep_is_not_doubted(watched: Watched) -> None:
    asleep = Look(replace(IDLE, asleep=True))

    assert {watched.look(asleep) for _ in range(100)} == {Standing.FINE}


def test_a_launcher_that_was_stopped_itself_does_not_doubt_the_engine(watched: Watched) -> None:
    # A node that was suspended, or a container that was frozen as a whole.
    assert watched.look(Look(IDLE), after_s=3600.0) is Standing.FINE


def test_a_token_is_asked_for_once_nothing_has_moved_for_a_while(watched: Watched) -> None:
    assert not watched.progress.unproven

    watched.look(Look(IDLE), after_s=4.0)
    assert not watched.progress.unproven
    watched.look(Look(IDLE), after_s=1.0)
    assert watched.progress.unproven
    watched.look(Look(IDLE, completed=1))
    assert not watched.progress.unproven


def test_since_when_it_has_not_got_on_is_told(watched: Watched) -> None:
    watched.look(Look(BUSY))
    moved_s = watched.now_s

    watched.until(Standing.HUNG, Look(None))

    assert watched.progress.since_s == moved_s
    assert watched.progress.requests == 3


@given(
    looks=st.lists(
        st.tuples(
            st.sampled_from([IDLE, BUSY, None]),
            st.floats(min_value=0.0, max_value=19.0),
        ),
        max_size=60,
    )
)
def test_whatever_was_seen_a_token_within_the_bound_is_always_enough(
    looks: list[tuple[Counters | None, float]],
) -> None:
    watched = Watched()
    for completed, (counters, after_s) in enumerate(looks, start=1):
        look = Look(counters, completed=completed)
        assert watched.look(look, after_s=after_s) is Standing.FINE


@given(
    looks=st.lists(st.tuples(st.booleans(), st.floats(min_value=0.1, max_value=5.0)), max_size=60)
)
def test_what_never_moves_is_never_hung_before_its_time(
    looks: list[tuple[bool, float]],
) -> None:
    watched = Watched()
    watched.look(Look(IDLE), after_s=0.0)
    began_s = watched.now_s
    for answers, after_s in looks:
        standing = watched.look(Look(IDLE if answers else None), after_s=after_s)
        still_s = watched.now_s - began_s
        assert (standing is Standing.HUNG) == (still_s >= BOUNDS.hung_s)
        assert (standing is Standing.FINE) == (still_s < BOUNDS.doubted_s)


def settings(**changes: object) -> EngineSettings:
    return EngineSettings.model_validate({"role": "decode", "model": "m"} | changes)


def test_a_quick_engine_has_the_bounds_of_its_settings() -> None:
    bounds = bounds_of(settings(kv_lease_s=30), token_s=0.0001)

    assert (bounds.doubted_s, bounds.hung_s, bounds.blocked_s) == (20.0, 60.0, 60.0)


def test_a_slow_engine_is_given_two_of_its_longest_steps() -> None:
    bounds = bounds_of(settings(), token_s=0.05)

    # A step computes 2,048 prompt tokens on a CPU.
    assert bounds.doubted_s == pytest.approx(2 * 2048 * 0.05)
    assert bounds.hung_s == pytest.approx(6 * 2048 * 0.05)


@pytest.mark.parametrize("option", ["--max-num-batched-tokens", "--max_num_batched_tokens"])
def test_longer_steps_get_more_time(option: str) -> None:
    bounds = bounds_of(settings(extra_arg=(f"{option}=8192",)), token_s=0.05)

    assert bounds.doubted_s == pytest.approx(2 * 8192 * 0.05)
