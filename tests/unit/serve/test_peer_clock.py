"""A lease never looks longer than it is, whatever an engine's pauses do to what it learns."""

import importlib
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_engine.serve.engine_command import PLUGINS

# A pause, the way there and the way back, each stopped for minutes at worst; and a drift.
stamp = st.tuples(st.floats(0, 4000), st.floats(0, 90), st.floats(0, 90), st.floats(-4e-4, 4e-4))


@pytest.fixture(scope="module")
def clock_type() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PLUGINS))
        return importlib.import_module("tandem_peer_clock").PeerClock


@given(ahead_s=st.floats(-1e6, 1e6), stamps=st.lists(stamp, min_size=1, max_size=20))
def test_a_peer_is_never_taken_to_be_less_ahead_than_it_is(
    clock_type: Any, ahead_s: float, stamps: list[tuple[float, float, float, float]]
) -> None:
    clock, now = clock_type(), 0.0
    for pause_s, there_s, back_s, drift in stamps:
        sent_s = now + pause_s
        stamped_s = sent_s + there_s
        # The two clocks go at different speeds.
        ahead_s += drift * (stamped_s - now)
        now = stamped_s + back_s
        ahead_s += drift * back_s
        clock.stamped(stamped_s + ahead_s - drift * back_s, sent_s=sent_s)

        assert clock.ahead_s(now) >= ahead_s - 1e-6


def test_an_engine_that_was_stopped_while_it_asked_knows_better_by_its_next_question(
    clock_type: Any,
) -> None:
    clock = clock_type()
    clock.stamped(1000.0 + 85.0, sent_s=0.0)
    clock.stamped(1000.0 + 85.01, sent_s=85.0)

    assert clock.ahead_s(85.1) == pytest.approx(1000.01)


def test_a_peer_that_was_never_asked_may_be_anywhere(clock_type: Any) -> None:
    assert math.isinf(clock_type().ahead_s(5.0))


def test_it_is_asked_once_at_a_time_and_again_once_its_answer_is_old(clock_type: Any) -> None:
    clock = clock_type()

    assert [clock.ask(now) for now in (0.0, 1.0, 11.0)] == [True, False, True]
    clock.stamped(1000.0, sent_s=12.0)
    assert [clock.ask(now) for now in (30.0, 300.0, 313.0)] == [False, False, True]
