"""A climb is found from its begin on, told from chance, steps and waves, and carried on."""

from dataclasses import replace
from math import exp, sqrt
from random import Random

import pytest

from tandem_operator.core.forecast.climb import climb_of, climb_out_of_level
from tandem_operator.core.observe.demand_history import UNKNOWN
from tandem_operator.core.tuning.tuning import TUNING
from tests.unit.core.bursts import lived

NUMBERS = TUNING.forecast
BIN_S, WINDOW_S = NUMBERS.climb_bin_s, NUMBERS.climb_window_s


def climbing(rate_rps: float, slope: float, *, age_s: int, seconds: int = WINDOW_S) -> list[float]:
    """Return the exact counts of a level, with a climb in the last `age_s` seconds."""
    begin = seconds - age_s
    return [rate_rps + slope * max(0.0, second + 0.5 - begin) for second in range(seconds)]


def noisy(counts: list[float], *, seed: int) -> list[float]:
    random = Random(seed)
    return [max(0.0, random.gauss(rate, sqrt(rate))) for rate in counts]


@pytest.mark.parametrize("age_s", [30, 60, 150, 300])
def test_a_climb_is_found_from_its_begin_on(age_s: int) -> None:
    found = climb_of(climbing(8.0, 0.2, age_s=age_s))

    assert found is not None
    assert found.age_s == age_s
    # A bin that is straight within itself adds a little.
    assert found.slope == pytest.approx(0.2, rel=0.01)
    assert found.rate_rps == pytest.approx(8.0 + 0.2 * age_s, rel=0.01)
    assert found.certainty > NUMBERS.climb_certain_variances


def test_only_the_last_minutes_are_searched() -> None:
    early = [50.0] * 600

    assert climb_of(early + climbing(8.0, 0.1, age_s=60)) == climb_of(climbing(8.0, 0.1, age_s=60))


def test_a_climb_goes_on_for_about_as_long_as_it_has_lasted() -> None:
    found = climb_of(climbing(8.0, 0.1, age_s=60))

    assert found is not None
    assert found.at(0.0) == found.rate_rps
    assert found.at(60.0) - found.rate_rps == pytest.approx(6.0 * (1.0 - exp(-1.0)), rel=0.01)
    assert found.at(1e6) - found.rate_rps == pytest.approx(6.0, rel=0.01)


@pytest.mark.parametrize("after_s", [30, 60, 100, 150])
@pytest.mark.parametrize("times", [2.0, 5.0])
def test_a_step_is_no_climb(after_s: int, times: float) -> None:
    counts = [8.0] * (WINDOW_S - after_s) + [times * 8.0] * after_s

    found = [climb_of(noisy(counts, seed=seed)) for seed in range(50)]

    assert climb_of(counts) is None
    assert sum(each is not None for each in found) <= 5


@pytest.mark.parametrize(
    "counts",
    [
        [],
        [0.0] * WINDOW_S,
        [8.0] * WINDOW_S,
        climbing(30.0, -0.1, age_s=60),
        climbing(8.0, 1.0, age_s=2 * NUMBERS.climb_least_bins * BIN_S - 1, seconds=59),
    ],
    ids=["nothing", "silence", "level", "fall", "short"],
)
def test_what_does_not_climb_is_no_climb(counts: list[float]) -> None:
    assert climb_of(counts) is None


@pytest.mark.parametrize("rate_rps", [1.0, 8.0, 50.0])
def test_chance_is_hardly_ever_a_certain_climb(rate_rps: float) -> None:
    found = [climb_of(noisy([rate_rps] * WINDOW_S, seed=seed)) for seed in range(200)]

    certain = [each for each in found if each and each.certainty >= NUMBERS.climb_certain_variances]
    assert len(certain) <= 4


def test_bursty_traffic_needs_a_steeper_climb() -> None:
    even = climbing(8.0, 0.1, age_s=100)
    bursty = [rate * (2.0 if second // BIN_S % 2 else 0.0) for second, rate in enumerate(even)]

    calm, wild = climb_of(even), climb_of(bursty)

    assert calm is not None
    assert wild is None or wild.certainty < calm.certainty / 4.0


RISING = climbing(8.0, 0.2, age_s=100)
LEVEL = lived([(8.0, 1200.0), (18.0, 100.0)])


def test_a_certain_climb_out_of_level_traffic_is_carried_on() -> None:
    assert climb_out_of_level(LEVEL, RISING) == climb_of(RISING)
    assert climb_out_of_level(LEVEL, [8.0] * WINDOW_S) is None


def test_the_rise_of_a_wave_or_of_young_traffic_is_not_carried_on_as_a_climb() -> None:
    wave = lived([(8.0, 300.0), (20.0, 300.0), (8.0, 300.0), (18.0, 100.0)])
    young = lived([(8.0, 590.0), (18.0, 100.0)])
    unseen = replace(LEVEL, requests=(UNKNOWN,) * len(LEVEL))

    for history in (wave, young, unseen):
        assert climb_out_of_level(history, RISING) is None


def test_a_climb_that_may_be_chance_is_not_carried_on() -> None:
    slight = climbing(8.0, 0.02, age_s=100)

    assert climb_of(slight) is not None
    assert climb_out_of_level(LEVEL, slight) is None
