"""A season of any shape is foreseen from the period before, and chance is not taken for one."""

from math import inf, isfinite
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_operator.core.forecast.backtest import Track
from tandem_operator.core.forecast.forecaster import forecast
from tandem_operator.core.forecast.seasonality_of_hours import repeat
from tandem_operator.core.forecast.seasonality_of_minutes import Season
from tandem_operator.core.observe.arrivals import Arrivals
from tandem_operator.core.observe.demand_history import BUCKET_S, UNKNOWN, DemandHistory
from tests.unit.core.bursts import Span
from tests.unit.core.scene import NOW_S

END_S = int(NOW_S) // BUCKET_S * BUCKET_S
# A day that no sine is like: it rises within a minute, stays, and falls in two steps.
DAY: list[Span] = [(2.0, 600.0), (20.0, 900.0), (12.0, 300.0)]
HORIZONS_S = (2.0, 60.0, 120.0, 240.0)


def history(spans: list[Span], *, seed: int | None = 1) -> DemandHistory:
    """Return the requests of spans of one rate each, with the chance of a Poisson process."""
    random, counts = Random(seed), []
    for rate, span_s in spans:
        for _ in range(round(span_s / BUCKET_S)):
            mean = rate * BUCKET_S
            counts.append(max(0, round(random.gauss(mean, mean**0.5 if seed else 0.0))))
    return DemandHistory(end_s=END_S, requests=tuple(counts), prompt_tokens=tuple(counts))


def foreseen(spans: list[Span], *, seed: int = 1) -> Season | None:
    found = repeat(history(spans, seed=seed), end_s=END_S, horizons_s=HORIZONS_S, lead_s=180.0)
    return found if found is not None and found.seen else None


def test_a_rise_is_foreseen_before_it_begins() -> None:
    found = foreseen([*DAY, *DAY, (2.0, 480.0)])

    assert found is not None
    assert found.rates_rps[0] == pytest.approx(2.0, abs=1.0)
    assert found.rates_rps[-1] == pytest.approx(20.0, rel=0.15)


def test_a_fall_is_foreseen_before_it_begins() -> None:
    found = foreseen([*DAY, *DAY, (2.0, 600.0), (20.0, 840.0)])

    assert found is not None
    assert found.rates_rps[-1] == pytest.approx(12.0, rel=0.15)


def test_a_period_longer_than_the_routers_history_is_foreseen() -> None:
    slow = [(rate, 3 * span_s) for rate, span_s in DAY]

    found = foreseen([*slow, *slow, (2.0, 1700.0)])

    assert found is not None
    assert found.rates_rps[-1] == pytest.approx(20.0, rel=0.15)


def test_what_stands_out_now_fades() -> None:
    found = foreseen([*DAY, *DAY, (2.0, 240.0), (4.0, 60.0)])

    assert found is not None
    assert found.rates_rps[0] == pytest.approx(4.0, abs=1.0)
    assert found.rates_rps[-1] == pytest.approx(2.0, abs=0.5)


def test_level_traffic_has_no_period() -> None:
    assert not any(foreseen([(10.0, 7200.0)], seed=seed) for seed in range(1, 20))


def test_jumps_at_random_seldom_look_like_a_period() -> None:
    looks = seen = 0
    for seed in range(1, 20):
        random = Random(seed)
        spans = [(rate, random.expovariate(1 / 240.0)) for _ in range(12) for rate in (4.0, 40.0)]
        requests = history(spans, seed=seed).requests
        for end in range(30, len(requests), 6):
            known = DemandHistory(end_s=END_S, requests=requests[:end])
            found = repeat(known, end_s=END_S, horizons_s=HORIZONS_S, lead_s=180.0)
            looks += 1
            seen += found is not None and found.seen

    assert seen < 0.06 * looks


def test_one_wave_is_no_season_yet() -> None:
    assert foreseen(DAY) is None


def test_few_holes_are_bridged_and_many_say_nothing() -> None:
    whole = history([*DAY, *DAY, (2.0, 480.0)])
    few, many = list(whole.requests), list(whole.requests)
    few[20:24] = [UNKNOWN] * 4
    many[20:60] = [UNKNOWN] * 40

    def found(requests: list[int]) -> Season | None:
        known = DemandHistory(end_s=END_S, requests=tuple(requests))
        return repeat(known, end_s=END_S, horizons_s=HORIZONS_S, lead_s=180.0)

    bridged = found(few)
    assert bridged is not None
    assert bridged.rates_rps[-1] == pytest.approx(20.0, rel=0.15)
    assert found(many) is None


def test_the_forecast_rises_before_the_traffic_does() -> None:
    past = history([*DAY, *DAY])
    random = Random(2)

    def most(known: DemandHistory) -> float:
        counts, track, made = [2.0] * 60, Track(since_s=END_S - 4000.0), None
        for now_s in range(END_S, END_S + 480, 5):
            counts += [max(0.0, random.gauss(2.0, 0.6)) for _ in range(5)]
            arrivals = Arrivals(now_s + 5, tuple(counts), {}, complete=True)
            known = known.close(arrivals)
            made, track = forecast(track, arrivals, lead_s=180.0, now_s=now_s + 5, history=known)
        assert made is not None
        return made.peak.mean_rps

    assert most(DemandHistory()) < 4.0
    assert most(past) > 10.0


@given(
    counts=st.lists(st.integers(UNKNOWN, 2000), max_size=20),
    times=st.integers(1, 12),
    behind_s=st.integers(-7200, 7200),
    lead_s=st.floats(5.0, 900.0),
)
def test_any_history_gives_rates_that_can_be(
    counts: list[int], times: int, behind_s: int, lead_s: float
) -> None:
    known = DemandHistory(end_s=END_S, requests=tuple(counts * times))
    horizons_s = (2.0, lead_s, lead_s + 60.0)

    found = repeat(known, end_s=END_S + behind_s, horizons_s=horizons_s, lead_s=lead_s)

    for rate in () if found is None else found.rates_rps:
        assert isfinite(rate)
        assert 0.0 <= rate < inf


@pytest.mark.parametrize("behind_s", [-86_400, 600, 3 * 3600])
def test_a_history_that_does_not_reach_to_now_foresees_nothing(behind_s: int) -> None:
    known = history([*DAY, *DAY, (2.0, 480.0)])

    assert repeat(known, end_s=END_S, horizons_s=HORIZONS_S, lead_s=180.0) is not None
    assert repeat(known, end_s=END_S + behind_s, horizons_s=HORIZONS_S, lead_s=180.0) is None


def test_a_late_look_knows_how_late_it_is() -> None:
    # The rise comes two minutes after the last bucket.
    known = history([*DAY, *DAY, (2.0, 480.0)])

    found = repeat(known, end_s=END_S + 100, horizons_s=(2.0, 80.0), lead_s=80.0)

    assert found is not None
    assert found.rates_rps[1] == pytest.approx(20.0, rel=0.15)


@pytest.mark.parametrize("behind_s", [-60, 60, 200])
def test_a_look_that_is_late_by_minutes_does_no_harm(behind_s: int) -> None:
    found = repeat(
        history([(2.0, 180.0), (20.0, 180.0)] * 12, seed=None),
        end_s=END_S + behind_s,
        horizons_s=(2.0, 240.0, 300.0),
        lead_s=240.0,
    )

    assert found is not None
    assert all(0.0 <= rate < 25.0 for rate in found.rates_rps)
