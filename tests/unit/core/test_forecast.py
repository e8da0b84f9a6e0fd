from dataclasses import replace
from math import cos, pi, sin, sqrt
from random import Random

import pytest

from tandem_operator.core.forecast.backtest import Miss, Track
from tandem_operator.core.forecast.change_point import last_step_s
from tandem_operator.core.forecast.distribution import Forecast, Level
from tandem_operator.core.forecast.experts import predict_all
from tandem_operator.core.forecast.forecaster import NO_HISTORY, forecast
from tandem_operator.core.forecast.seasonality_of_minutes import periods_s, season
from tandem_operator.core.observe.arrivals import Arrivals
from tandem_operator.core.observe.demand_history import DemandHistory
from tandem_operator.core.tuning.tuning import TUNING, Tuning
from tests.unit.core.bursts import lived
from tests.unit.core.scene import NOW_S

LEAD_S = 60.0
PERIODS_S = periods_s()
PROVEN_RISK = TUNING.forecast.proven_risk_share


def poisson(random: Random, rate: float) -> float:
    """Return the events of a unit-time Poisson process, counted gap by gap."""
    at, count = random.expovariate(rate) if rate > 0 else 2.0, 0
    while at < 1.0:
        at += random.expovariate(rate)
        count += 1
    return float(count)


def near(random: Random, rate: float) -> float:
    """Return a count with the mean and deviation of a Poisson process, at any rate."""
    return max(0.0, random.gauss(rate, sqrt(rate)))


def waves(rate_rps: float, period_s: float, *, seconds: int) -> list[float]:
    """Return the counts a second around a sine of half its mean."""
    random = Random(7)
    return [
        near(random, rate_rps * (1.0 + 0.5 * sin(2 * pi * t / period_s))) for t in range(seconds)
    ]


def last_forecast(
    rates: list[float],
    *,
    seed: int = 1,
    known_s: float = 1000.0,
    history: DemandHistory = NO_HISTORY,
    tuning: Tuning = TUNING,
) -> Forecast:
    """Return the forecast after `rates`, for a pool that was watched for `known_s` before them."""
    random, counts, made = Random(seed), [], None
    track = Track(since_s=NOW_S - known_s)
    for t, rate in enumerate(rates, start=1):
        counts.append(poisson(random, rate))
        if t % 5 == 0:
            arrivals = Arrivals(int(NOW_S) + t, tuple(counts[-1200:]), {}, complete=True)
            made, track = forecast(
                track, arrivals, lead_s=LEAD_S, now_s=NOW_S + t, history=history, tuning=tuning
            )
    assert made is not None
    return made


def test_constant_load_is_forecast_as_it_is() -> None:
    peaks = [last_forecast([10.0] * 400, seed=seed).peak.mean_rps for seed in range(5)]

    assert sum(peaks) / 5 == pytest.approx(10.0, rel=0.1)
    assert max(peaks) < 12.5


def test_a_ramp_is_carried_on() -> None:
    ramp = [5.0 + 0.15 * t for t in range(200)]

    made = last_forecast(ramp)

    assert made.peak.mean_rps > ramp[-1]


def test_a_slow_climb_out_of_level_traffic_is_carried_on_sooner() -> None:
    level = lived([(6.0, 1200.0)])
    climb = [6.0] * 200 + [6.0 + 0.04 * t for t in range(120)]

    def ahead(history: DemandHistory) -> float:
        made = [last_forecast(climb, seed=seed, history=history) for seed in range(5)]
        return sum(each.peak.mean_rps for each in made) / len(made)

    assert ahead(level) > ahead(NO_HISTORY) + 0.5


def test_a_step_is_not_taken_for_a_ramp() -> None:
    made = last_forecast([2.0] * 200 + [8.0] * 20)

    assert 6.0 < made.peak.mean_rps < 11.0


def test_a_period_seen_twice_is_foreseen() -> None:
    wave = [20.0 + 12.0 * sin(2 * pi * t / 330.0) for t in range(1200)]
    # At 1,070 s the wave is at its crest and about to fall.
    made = last_forecast(wave[:1070])

    lead = next(level for level in made.levels if level.horizon_s == LEAD_S)
    assert lead.mean_rps == pytest.approx(wave[1070 + int(LEAD_S)], rel=0.25)


def test_samples_lie_on_both_sides_of_the_mean() -> None:
    for level in last_forecast([10.0] * 300).levels:
        assert min(level.samples_rps) < level.mean_rps < max(level.samples_rps)


def test_too_short_a_history_gives_no_forecast() -> None:
    arrivals = Arrivals(int(NOW_S), (3.0,) * 10, {}, complete=True)

    assert forecast(Track(), arrivals, lead_s=LEAD_S, now_s=NOW_S)[0] is None


def test_a_lower_bound_proves_no_prediction_wrong() -> None:
    whole = Arrivals(int(NOW_S), (3.0,) * 60, {}, complete=True)
    _, track = forecast(Track(), whole, lead_s=LEAD_S, now_s=NOW_S)
    partial = Arrivals(int(NOW_S) + 120, (0.0,) * 180, {}, complete=False)

    _, after = forecast(track, partial, lead_s=LEAD_S, now_s=NOW_S + 120)

    assert after.losses == {}
    assert after.misses == ()


def test_what_is_foreseen_from_half_of_the_traffic_is_not_compared_with_all_of_it() -> None:
    half = Arrivals(int(NOW_S), (3.0,) * 60, {}, complete=False)

    _, track = forecast(Track(), half, lead_s=LEAD_S, now_s=NOW_S)

    assert track.pending == ()


@pytest.mark.parametrize(("lead_s", "tick_s"), [(300.0, 1), (1800.0, 5)])
def test_forecasts_are_tested_however_long_a_start_takes_and_however_often_is_looked(
    lead_s: float, tick_s: int
) -> None:
    track, counts = Track(since_s=NOW_S), [4.0] * 1200
    for t in range(0, int(2.2 * lead_s), tick_s):
        arrivals = Arrivals(int(NOW_S) + t, tuple(counts), {}, complete=True)
        _, track = forecast(track, arrivals, lead_s=lead_s, now_s=NOW_S + t)

    assert sum(not miss.near for miss in track.misses) >= 30
    assert track.losses["mean30"].weight > 10.0


def test_a_step_is_found_where_it_is() -> None:
    random = Random(4)
    counts = [poisson(random, 2.0) for _ in range(100)]
    counts += [poisson(random, 9.0) for _ in range(30)]

    found = last_step_s(counts)

    assert found is not None
    assert abs(found - 30) <= 4


@pytest.mark.parametrize("seed", range(5))
def test_neither_noise_nor_a_ramp_is_a_step(seed: int) -> None:
    random = Random(seed)

    assert last_step_s([poisson(random, 4.0) for _ in range(180)]) is None
    assert last_step_s([poisson(random, 3.0 + 0.1 * t) for t in range(180)]) is None


def test_a_wave_has_no_step_in_it_wherever_it_stands() -> None:
    random = Random(8)
    wave = [poisson(random, 23.0 - 17.0 * cos(2 * pi * t / 600.0)) for t in range(900)]

    assert {last_step_s(wave[:end]) for end in range(200, 900, 20)} == {None}


def test_a_jump_on_a_climb_is_seen_within_five_seconds() -> None:
    random = Random(6)
    climb = [23.0 - 17.0 * cos(2 * pi * t / 600.0) for t in range(185)]
    jump = [1.8 * (23.0 - 17.0 * cos(2 * pi * t / 600.0)) for t in range(185, 190)]

    assert last_step_s([poisson(random, rate) for rate in climb + jump]) in (4, 5, 6)


def test_a_few_requests_after_long_silence_are_no_step() -> None:
    assert last_step_s([0.0] * 170 + [1.0, 1.0, 0.0, 1.0]) is None


def test_a_jump_stays_in_the_forecast_of_a_season_until_it_is_over() -> None:
    wave = [23.0 - 17.0 * cos(2 * pi * t / 600.0) for t in range(900)]
    jumped = [*wave[:780], *(1.8 * rate for rate in wave[780:800])]

    usual, made = last_forecast(wave[:800]), last_forecast(jumped)

    assert made.at(LEAD_S).mean_rps > usual.at(LEAD_S).mean_rps + 0.6 * 0.8 * wave[800]


def test_only_a_jump_upwards_is_called_one() -> None:
    assert last_forecast([10.0] * 300 + [30.0] * 10).jumped
    assert not last_forecast([30.0] * 300 + [10.0] * 10).jumped
    assert not last_forecast([10.0] * 310).jumped


def test_new_traffic_that_climbs_gets_room_for_more_and_no_other_does() -> None:
    climb = [5.0 + 0.2 * t for t in range(100)]
    new, known = (last_forecast(climb, known_s=known_s) for known_s in (0.0, 1000.0))

    assert new.room > 1.3
    assert new.peak.mean_rps == pytest.approx(new.room * known.peak.mean_rps)
    assert known.room == 1.0
    assert last_forecast([20.0] * 100, known_s=0.0).room < 1.2


def test_only_a_jump_and_a_first_climb_wait_for_no_second_look() -> None:
    climb = [5.0 + 0.2 * t for t in range(100)]

    assert last_forecast([10.0] * 300 + [30.0] * 10).hasty
    assert last_forecast(climb, known_s=0.0).hasty
    assert not last_forecast(climb, known_s=1000.0).hasty
    assert not last_forecast([60.0] * 100, known_s=0.0).hasty


def test_routers_that_start_anew_do_not_make_known_traffic_new() -> None:
    long = Arrivals(int(NOW_S), (9.0,) * 1200, {}, complete=True)
    _, track = forecast(Track(), long, lead_s=LEAD_S, now_s=NOW_S)
    climb = tuple(9.0 + 0.5 * t for t in range(60))
    short = Arrivals(int(NOW_S) + 60, climb, {}, complete=True)

    made, _ = forecast(track, short, lead_s=LEAD_S, now_s=NOW_S + 60)

    assert made is not None
    assert made.room == 1.0


def test_traffic_is_as_new_to_a_pool_that_was_watched_before_its_first_router() -> None:
    nothing = Arrivals(0, (), {}, complete=False)
    _, track = forecast(Track(), nothing, lead_s=LEAD_S, now_s=NOW_S - 60)
    climb = tuple(5.0 + 0.2 * t for t in range(100))

    made, _ = forecast(
        track,
        Arrivals(int(NOW_S), climb, {}, complete=True),
        lead_s=LEAD_S,
        now_s=NOW_S,
    )

    assert made is not None
    assert made.room > 1.3


def test_a_period_is_believed_after_one_whole_turn() -> None:
    wave = [23.0 - 17.0 * cos(2 * pi * t / 600.0) for t in range(1000)]
    # At 700 s the first turn is over and the second climbs, faster than a line through a minute.
    made = last_forecast(wave[:700])

    lead = made.at(LEAD_S)
    assert lead.mean_rps == pytest.approx(wave[700 + int(LEAD_S)], rel=0.12)


def test_a_burst_does_not_spoil_what_is_known_of_the_season() -> None:
    wave = [
        (23.0 - 17.0 * cos(2 * pi * t / 480.0)) * (1.8 if 300 <= t < 360 else 1.0)
        for t in range(1000)
    ]

    made = last_forecast(wave[:620])

    assert made.at(LEAD_S).mean_rps == pytest.approx(wave[620 + int(LEAD_S)], rel=0.15)


@pytest.mark.parametrize("rate_rps", [20.0, 200.0, 2000.0])
@pytest.mark.parametrize("period_s", [sqrt(PERIODS_S[20] * PERIODS_S[21]), 430.0, 520.0])
def test_pools_of_every_size_see_a_season_of_any_period(rate_rps: float, period_s: float) -> None:
    counts = waves(rate_rps, period_s, seconds=1200)

    found = season(counts[:1000], [LEAD_S])

    assert found is not None
    assert found.seen
    actual_rps = sum(counts[1055:1065]) / 10
    assert found.rates_rps[0] == pytest.approx(actual_rps, abs=0.05 * rate_rps + 3.0)


@pytest.mark.parametrize("period_s", [590.0, 612.0])
def test_so_many_requests_tell_a_wave_s_height_and_what_lies_between_the_tried_periods(
    period_s: float,
) -> None:
    found = season(waves(2000.0, period_s, seconds=1000), [LEAD_S])

    assert found is not None
    assert found.amplitude_rps == pytest.approx(0.5 * 2000.0, rel=0.02)
    assert found.error_rps < 1.2 * found.noise_rps


def test_a_wave_is_a_season_though_no_sine_to_within_the_chance_of_thousands_of_requests() -> None:
    counts = [
        count + 200.0 * sin(4 * pi * t / 612.0)
        for t, count in enumerate(waves(2000.0, 612.0, seconds=1000))
    ]

    found = season(counts, [LEAD_S])

    assert found is not None
    assert found.error_rps > 5.0 * found.noise_rps
    assert found.seen


@pytest.mark.parametrize("rate_rps", [20.0, 2000.0])
def test_a_level_that_stays_up_is_no_season(rate_rps: float) -> None:
    random = Random(4)
    counts = [near(random, rate_rps * (1.0 if t < 500 else 2.0)) for t in range(1000)]

    found = season(counts, [LEAD_S])

    assert found is not None
    assert not found.seen


def test_no_season_is_seen_in_noise_around_a_constant_rate() -> None:
    random = Random(3)
    counts = [poisson(random, 20.0) for _ in range(1200)]

    found = season(counts, [LEAD_S])

    assert found is not None
    assert not found.seen


@pytest.mark.parametrize("seed", range(3))
def test_a_burst_does_not_end_what_is_believed_of_the_season(seed: int) -> None:
    random = Random(seed)
    counts = [
        poisson(random, (23.0 - 17.0 * cos(2 * pi * t / 520.0)) * (1.8 if 870 <= t < 930 else 1.0))
        for t in range(1000)
    ]

    for now in (960, 1000):
        found = season(counts[:now], [LEAD_S])
        assert found is not None
        assert found.seen


def test_of_two_periods_that_explain_the_past_the_one_with_the_smaller_wave_is_not_preferred() -> (
    None
):
    # Nine tenths of a turn are over; a shorter period would have the next climb begin already.
    wave = [23.0 - 17.0 * cos(2 * pi * t / 600.0) for t in range(700)]
    errors_rps = []
    for seed in range(5):
        random = Random(seed)
        found = season([poisson(random, rate) for rate in wave[:530]], [LEAD_S])
        assert found is not None
        errors_rps.append(found.rates_rps[0] - wave[530 + int(LEAD_S)])

    assert sum(errors_rps) / 5 < 4.0


def test_a_forecast_of_little_risk_orders_no_earlier_than_a_start_takes() -> None:
    def climb(spread: float) -> Forecast:
        samples = (1.0 - spread, 1.0, 1.0 + spread)
        levels = tuple(
            Level(horizon_s=at_s, mean_rps=rate, samples_rps=tuple(rate * s for s in samples))
            for at_s, rate in ((2.0, 10.0), (60.0, 20.0), (120.0, 30.0))
        )
        return Forecast(lead_s=60.0, levels=levels)

    unsure, sure = climb(0.3), climb(0.01)

    assert unsure.risk == pytest.approx(0.3)
    assert unsure.looking_ahead(1.0) == unsure
    assert sure.looking_ahead(0.0).peak.mean_rps == pytest.approx(20.0)
    assert sure.looking_ahead(0.5).peak.mean_rps == pytest.approx(25.0)
    assert sure.looking_ahead(0.5).levels[:2] == sure.levels[:2]
    assert sure.looking_ahead(0.5).peak.samples_rps == pytest.approx((24.75, 25.0, 25.25))


def test_a_steady_rate_that_was_foreseen_for_long_has_little_risk_and_a_new_one_has_not() -> None:
    known, new = last_forecast([60.0] * 1000), last_forecast([60.0] * 40)

    assert known.risk < PROVEN_RISK < new.risk


def test_the_doubt_that_a_forecast_starts_with_fades_as_its_predictions_come_due() -> None:
    def risks(tuning: Tuning = TUNING) -> list[float]:
        return [last_forecast([60.0] * seconds, tuning=tuning).risk for seconds in (40, 240)]

    numbers = replace(TUNING.forecast, least_error=TUNING.forecast.first_error)
    new, known = risks()
    still_new, never_fading = risks(replace(TUNING, forecast=numbers))

    assert new == still_new
    assert known < 0.7 * never_fading


def test_what_is_said_beyond_a_start_counts_less_where_forecasts_have_come_true() -> None:
    whole = last_forecast([40.0 + 24.0 * sin(2 * pi * t / 450.0) for t in range(1190)])

    made = whole.proven()

    # A start takes it to its bottom, the minute beyond that up again.
    assert whole.risk < PROVEN_RISK
    assert made.levels[:-1] == whole.levels[:-1]
    assert made.at(LEAD_S).mean_rps < made.levels[-1].mean_rps < whole.levels[-1].mean_rps


def test_the_near_end_of_a_forecast_errs_as_near_ones_did_and_the_far_end_as_far_ones_did() -> None:
    arrivals = Arrivals(int(NOW_S), (10.0,) * 600, {}, complete=True)
    rates = dict.fromkeys(predict_all((10.0,) * 600, (LEAD_S,), step_age_s=None), 10.0)

    def missed(*, near_by: float, far_by: float) -> tuple[Miss, ...]:
        return tuple(
            Miss(NOW_S - i, near, rates, 10.0 + (near_by if near else far_by), 1.0)
            for i in range(200)
            for near in (True, False)
        )

    def spread_rps(misses: tuple[Miss, ...]) -> dict[float, float]:
        track = Track(at_s=NOW_S - 5.0, since_s=NOW_S - 3000.0, misses=misses)
        made, _ = forecast(track, arrivals, lead_s=LEAD_S, now_s=NOW_S)
        assert made is not None
        return {level.horizon_s: max(level.samples_rps) - 10.0 for level in made.levels}

    near = spread_rps(missed(near_by=6.0, far_by=0.0))
    far = spread_rps(missed(near_by=0.0, far_by=6.0))
    first, last = min(near), LEAD_S

    assert near[first] > 4.0
    assert far[first] < 2.0
    assert far[last] > 4.0
    assert near[last] < 2.0
    assert any(near[first] > near[h] > near[last] for h in near)
    assert any(far[first] < far[h] < far[last] for h in far)
