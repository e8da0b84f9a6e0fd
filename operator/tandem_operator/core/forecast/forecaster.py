"""Forecast the arrival rate over the start-up time and beyond, with quantiles from past errors."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import exp, sqrt

from tandem_operator.core.forecast.backtest import SCORE_WINDOW_S, Loss, Pending, Track, score
from tandem_operator.core.forecast.change_point import last_step_s
from tandem_operator.core.forecast.distribution import Forecast, Level
from tandem_operator.core.forecast.experts import EXPERTS, predict_all
from tandem_operator.core.forecast.seasonality_of_hours import repeat
from tandem_operator.core.forecast.seasonality_of_minutes import Season, season
from tandem_operator.core.observe.arrivals import Arrivals
from tandem_operator.core.observe.demand_history import DemandHistory

SEASON, REPEAT = "season", "repeat"
NO_HISTORY = DemandHistory()
LOOK_AHEAD_S = 60.0
NEAR_S = 16.0
MIN_HISTORY_S = 20
SHARPNESS = 8.0
SCORES_TO_TRUST = 20.0
SEASON_CAUTION = 1.5
LOSS_PER_DEVIATION = 0.4
ERROR_MEMORY_S = 400.0
ERROR_SCALE = 0.78
QUANTILES = 5
NORMAL = (-1.2, -0.8, -0.5, -0.2, 0.0, 0.2, 0.5, 0.8, 1.2)
FIRST_ERROR, LEAST_ERROR = 0.2, 0.1
PRIOR_WEIGHT = 10.0
MOST_GROWTH = 1.6
MOST_ERROR = 0.6
JUMP_NEWS_S = 15
# Who has seen two minutes of a pool does not know how far its traffic climbs.
YOUNG_S, GROWN_S = 150.0, 240.0
YOUNG_ROOM = 0.5
NO_GROWTH, CLEAR_GROWTH = 0.1, 0.5


def forecast(
    track: Track,
    arrivals: Arrivals,
    *,
    lead_s: float,
    now_s: float,
    history: DemandHistory = NO_HISTORY,
) -> tuple[Forecast | None, Track]:
    """The forecast and the record after it; `None` while too little is known."""
    counts = arrivals.counts
    step_age_s = last_step_s(counts)
    since_s = track.since_s
    if since_s is None and counts:
        # No router yet is no traffic yet, and no age either.
        since_s = arrivals.end_s - len(counts)
    scored = replace(score(track, arrivals, step_age_s, now_s), since_s=since_s)
    if since_s is None or len(counts) < MIN_HISTORY_S:
        return None, scored
    horizons_s = _horizons_s(lead_s)
    predictions = predict_all(counts, horizons_s, step_age_s=step_age_s)
    ceiling_rps = _ceiling_rps(counts)
    for name, rates in predictions.items():
        predictions[name] = [min(ceiling_rps, rate) for rate in rates]
    seasons = {
        SEASON: season(counts, horizons_s, step_age_s=step_age_s),
        REPEAT: repeat(history, end_s=arrivals.end_s, horizons_s=horizons_s, lead_s=lead_s),
    }
    seen = {name: each for name, each in seasons.items() if each is not None and each.seen}
    predictions |= {name: list(each.rates_rps) for name, each in seen.items()}
    weights = _weights(scored, predictions, seen)
    floor_rps = max(sum(counts[-900:]) / min(len(counts), 900), 0.02)
    levels = []
    means = [
        sum(weights[name] * rates[i] for name, rates in predictions.items())
        for i in range(len(horizons_s))
    ]
    room = _room(known_s=now_s - since_s, growth=max(means) / max(means[0], 1e-6) - 1.0)
    near, far = (_errors(scored, weights, floor_rps, now_s, near=near) for near in (True, False))
    for i, horizon_s in enumerate(horizons_s):
        mean_rps = means[i]
        share = min(1.0, max(0.0, (horizon_s - NEAR_S) / max(1.0, lead_s - NEAR_S)))
        spread = sqrt(max(mean_rps, 0.25 * floor_rps) * floor_rps) * ERROR_SCALE
        samples = tuple(
            max(0.0, mean_rps + spread * ((1.0 - share) * a + share * b))
            for a, b in zip(near, far, strict=True)
        )
        levels.append(
            Level(
                horizon_s=horizon_s,
                mean_rps=room * mean_rps,
                samples_rps=tuple(room * rate for rate in samples),
            )
        )
    record = replace(scored, at_s=now_s, since_s=since_s)
    if arrivals.complete:
        # What was foreseen from half of the traffic says nothing of foresight.
        said = {s: {n: r[i] for n, r in predictions.items()} for i, s in enumerate(horizons_s)}
        near_s = horizons_s[1]
        record = record.foreseen(
            Pending(made_s=now_s, due_s=now_s + near_s, near=True, rates=said[near_s]),
            Pending(made_s=now_s, due_s=now_s + lead_s, near=False, rates=said[lead_s]),
        )
    jumped = _jumped_up(counts, step_age_s)
    return Forecast(lead_s=lead_s, levels=tuple(levels), jumped=jumped, room=room), record


def _room(*, known_s: float, growth: float) -> float:
    """The factor on all rates while traffic climbs that is too new to know how far it climbs.

    `growth` is what is forecast, as a share of the present rate.
    """
    young = min(1.0, max(0.0, (GROWN_S - known_s) / (GROWN_S - YOUNG_S)))
    climbing = min(1.0, max(0.0, (growth - NO_GROWTH) / (CLEAR_GROWTH - NO_GROWTH)))
    return 1.0 + YOUNG_ROOM * young * climbing


def _jumped_up(counts: Sequence[float], step_age_s: int | None) -> bool:
    """Whether the last step is news, and upwards."""
    if step_age_s is None or step_age_s > JUMP_NEWS_S:
        return False
    before = counts[-2 * step_age_s : -step_age_s]
    return sum(counts[-step_age_s:]) > sum(before) * step_age_s / max(1, len(before))


def _horizons_s(lead_s: float) -> list[float]:
    near_s = min(NEAR_S, 0.5 * lead_s)
    return [2.0, near_s, 0.5 * (near_s + lead_s), lead_s, lead_s + LOOK_AHEAD_S]


def _ceiling_rps(counts: Sequence[float]) -> float:
    """No trend leads above twice what was just seen, chance allowed for: a jump is no trend."""
    recent = counts[-15:]
    level = sum(recent) / len(recent)
    return MOST_GROWTH * (level + sqrt(level / len(recent)))


def _weights(
    track: Track, predictions: Mapping[str, Sequence[float]], seasons: Mapping[str, Season]
) -> dict[str, float]:
    """How much to believe each expert, from its losses and what it was worth at first."""
    scored = [loss for loss in track.losses.values() if loss.weight > 0.0]
    overall = sum(o.total for o in scored) / sum(o.weight for o in scored) if scored else 0.0
    # The luckiest of few scores is not the best: each expert starts from the average of all. Only a
    # season has shown on the whole history what it is worth.
    first = dict.fromkeys(predictions, overall)
    for name, each in seasons.items():
        first[name] = SEASON_CAUTION * LOSS_PER_DEVIATION * each.error_rps
    # Rest is foreseen well by all. What moved within a period would have surprised the others.
    moved_rps = max((each.moved_rps for each in seasons.values()), default=0.0)
    unscored = Loss(0.0, 0.0)
    losses = {
        name: (loss.total + SCORES_TO_TRUST * first[name]) / (loss.weight + SCORES_TO_TRUST)
        for name in predictions
        for loss in (track.losses.get(name, unscored),)
    }
    losses |= {
        name: max(loss, LOSS_PER_DEVIATION * moved_rps)
        for name, loss in losses.items()
        if name in EXPERTS
    }
    least = max(min(losses.values()), 1e-9)
    weights = {
        name: _worth(name) * exp(-min(50.0, SHARPNESS * (loss / least - 1.0)))
        for name, loss in losses.items()
    }
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


def _worth(name: str) -> float:
    return EXPERTS[name].worth if name in EXPERTS else 1.0


def _errors(
    track: Track, weights: Mapping[str, float], floor_rps: float, now_s: float, *, near: bool
) -> list[float]:
    """Quantiles of the mixture's own errors with today's weights, in units of sqrt(rate x mean)."""
    errors: list[tuple[float, float]] = []
    for miss in track.misses:
        if miss.near is not near:
            continue
        weight = mixed = 0.0
        for name, rate in miss.rates.items():
            belief = weights.get(name, 0.0)
            weight += belief
            mixed += belief * rate
        if weight < 1e-6:
            continue
        mixed /= weight
        scale = sqrt(max(mixed, 0.25 * floor_rps) * floor_rps)
        age = miss.weight * exp(-max(0.0, now_s - miss.at_s) / ERROR_MEMORY_S)
        # A step is rare, and no news once it is there: it may widen the margin, not double it.
        error = (miss.actual_rps - mixed) / scale
        errors.append((min(MOST_ERROR, max(-MOST_ERROR, error)), age))
    if len(errors) > 10:
        # The actual rate was counted over a few seconds: its own chance is no forecast error.
        variance = sum(e * e for e, _ in errors) / len(errors)
        chance = 1.0 / (SCORE_WINDOW_S * floor_rps)
        shrink = sqrt(max(0.1, 1.0 - chance / max(variance, 1e-9)))
        errors = [(e * shrink, age) for e, age in errors]
    # Who was seldom wrong yet has seldom been asked yet.
    unseen = PRIOR_WEIGHT / (PRIOR_WEIGHT + sum(age for _, age in errors))
    spread = LEAST_ERROR + unseen * (FIRST_ERROR - LEAST_ERROR)
    errors.extend((spread * z, PRIOR_WEIGHT / len(NORMAL)) for z in NORMAL)
    # A forecast that was too high on the way down may be too low on the way up.
    either = [(sign * e, 0.5 * age) for e, age in errors for sign in (1.0, -1.0)]
    both = zip(_quantiles(sorted(errors)), _quantiles(sorted(either)), strict=True)
    return [max(each) for each in both]


def _quantiles(ordered: Sequence[tuple[float, float]]) -> list[float]:
    """Values at the middles of `QUANTILES` equal shares of the weight."""
    total = sum(weight for _, weight in ordered)
    wanted = [total * (i + 0.5) / QUANTILES for i in range(QUANTILES)]
    found: list[float] = []
    passed = 0.0
    for value, weight in ordered:
        passed += weight
        while len(found) < QUANTILES and wanted[len(found)] <= passed:
            found.append(value)
    return found + [ordered[-1][0]] * (QUANTILES - len(found))
