import pytest

from tandem_operator.core.headroom import LEAST_HEADROOM, MOST_HEADROOM, headroom


def test_the_more_requests_tell_the_rate_the_less_headroom_is_needed() -> None:
    rates = (1.0, 3.0, 10.0, 30.0, 100.0, 1000.0)
    found = [headroom(rate_rps=rate, dispersion=1.0) for rate in rates]

    assert found == sorted(found, reverse=True)
    assert found[-1] == LEAST_HEADROOM
    assert found[2] == pytest.approx(3.0 / 300**0.5)


def test_below_two_requests_a_second_a_rate_is_taken_from_longer_and_known_as_well() -> None:
    assert headroom(rate_rps=0.1, dispersion=1.0) == headroom(rate_rps=2.0, dispersion=1.0)


def test_bursty_arrivals_need_more_and_never_more_than_half() -> None:
    assert headroom(rate_rps=30.0, dispersion=4.0) == pytest.approx(
        2.0 * headroom(rate_rps=30.0, dispersion=1.0)
    )
    assert headroom(rate_rps=1.0, dispersion=50.0) == MOST_HEADROOM
