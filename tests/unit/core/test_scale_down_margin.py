from functools import partial

import pytest

from tandem_operator.core.observe.arrivals import Arrivals
from tandem_operator.core.sizing.scale_down_margin import headroom as headroom_after
from tandem_operator.core.sizing.scale_down_margin import tells_enough
from tandem_operator.core.tuning.tuning import TUNING

SIZING = TUNING.sizing
headroom = partial(headroom_after, known_s=SIZING.seen_s)


def test_the_more_requests_tell_the_rate_the_less_headroom_is_needed() -> None:
    rates = (1.0, 3.0, 10.0, 30.0, 100.0, 1000.0)
    found = [headroom(rate_rps=rate, dispersion=1.0) for rate in rates]

    assert found == sorted(found, reverse=True)
    assert found[-1] == pytest.approx(SIZING.least_headroom_share)
    assert found[2] == pytest.approx(3.0 / 300**0.5)


def test_below_two_requests_a_second_a_rate_is_taken_from_longer_and_known_as_well() -> None:
    assert headroom(rate_rps=0.1, dispersion=1.0) == headroom(rate_rps=2.0, dispersion=1.0)


def test_bursty_arrivals_need_more_and_never_more_than_half() -> None:
    assert headroom(rate_rps=30.0, dispersion=4.0) == pytest.approx(
        2.0 * headroom(rate_rps=30.0, dispersion=1.0)
    )
    assert headroom(rate_rps=1.0, dispersion=50.0) == pytest.approx(SIZING.most_headroom_share)


@pytest.mark.parametrize(
    ("known_s", "requests", "hidden_s", "enough"),
    [
        (44, 100, 0, False),
        (45, 30, 0, True),
        (45, 29, 0, False),
        (45, 100, 35, True),
        (45, 100, 36, False),
        (104, 5000, 36, False),
        (105, 0, 3600, True),
    ],
)
def test_a_short_history_tells_enough_if_it_is_all_there_was_and_holds_a_rate(
    known_s: int, requests: int, hidden_s: int, enough: bool
) -> None:
    counts = (float(requests), *[0.0] * (known_s - 1))
    arrivals = Arrivals(end_s=10_000, counts=counts, seconds={}, complete=True)

    assert tells_enough(arrivals, since_s=10_000.0 - known_s - hidden_s) is enough
    assert tells_enough(arrivals, since_s=None) is (enough or hidden_s == 36)


def test_a_quarter_of_the_history_bears_twice_the_load() -> None:
    seen = 1.0 + headroom(rate_rps=30.0, dispersion=1.0)

    assert 1.0 + headroom_after(
        rate_rps=30.0, dispersion=1.0, known_s=0.25 * SIZING.seen_s
    ) == pytest.approx(2.0 * seen)
    assert 1.0 + headroom_after(rate_rps=30.0, dispersion=1.0, known_s=1200.0) == seen
