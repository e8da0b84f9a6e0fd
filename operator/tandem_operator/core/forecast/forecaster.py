"""Forecast the arrival rate over the start-up time and beyond, with quantiles from past errors."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import exp, sqrt

from tandem_operator.core.forecast.backtest import Loss, Pending, Track, score
from tandem_operator.core.forecast.change_point import last_step_s
from tandem_operator.core.forecast.climb import Climb, climb_out_of_level
from tandem_operator.core.forecast.distribution import Forecast, Level
from tandem_operator.core.forecast.experts import EXPERTS, predict_all
from tandem_operator.core.forecast.seasonality_of_hours import repeat
from tandem_operator.core.forecast.seasonality_of_minutes import Season, season
from tandem_operator.core.observe.arrivals import Arrivals
from tandem_operator.core.observe.demand_history import DemandHistory
from tandem_operator.core.tuning.tuning import TUNING, Tuning

SEASON, REPEAT, CLIMB = "season", "repeat", "climb"
NO_HISTORY = DemandHistory()
# The mean pinball loss of a normal error, per standard deviation, for any quantile.
LOSS_PER_DEVIATION = 0.4
NORMAL = (-1.2, -0.8, -0.5, -0.2, 0.0, 0.2, 0.5, 0.8, 1.2)


def forecast(
    track: Track,
    arrivals: Arrivals,
    *,
    lead_s: float,
    now_s: float,
    history: DemandHistory = NO_HISTORY,
    tuning: Tuning = TUNING,
) -> tuple[Forecast | None, Track]:
    """Return the forecast and the next record; `None` while too little is known."""
    counts = arrivals.counts
    numbers = tuning.forecast
    step_age_s = last_step_s(counts, tuning=tuning)
    since_s = track.since_s
    if since_s is None and counts:
        # Without any router there is no traffic, and no age either.
        since_s = arrivals.end_s - len(counts)
    scored = replace(score(track, arrivals, step_age_s, now_s, tuning=tuning), since_s=since_s)
    if since_s is None or len(counts) < numbers.min_history_s:
        return None, scored
    horizons_s = _horizons_s(lead_s, tuning=tuning)
    predictions = predict_all(counts, horizons_s, step_age_s=step_age_s, tuning=tuning)
    ceiling_rps = _ceiling_rps(counts, tuning=tuning)
    for name, rates in predictions.items():
        predictions[name] = [min(ceiling_rps, rate) for rate in rates]
    seasons = {
        SEASON: season(counts, horizons_s, step_age_s=step_age_s, tuning=tuning),
        REPEAT: repeat(
            history, end_s=arrivals.end_s, horizons_s=horizons_s, lead_s=lead_s, tuning=tuning
        ),
    }
    seen = {name: each for name, each in seasons.items() if each is not None and each.seen}
    predictions |= {name: list(each.rates_rps) for name, each in seen.items()}
    since = counts if step_age_s is None else counts[-step_age_s:]
    climb = climb_out_of_level(history, since, tuning=tuning)
    if climb is not None:
        predictions[CLIMB] = [min(ceiling_rps, climb.at(horizon_s)) for horizon_s in horizons_s]
    weights = _weights(scored, predictions, seen, climb=climb, tuning=tuning)
    floor_rps = max(sum(counts[-900:]) / min(len(counts), 900), 0.02)
    levels = []
    means = [
        sum(weights[name] * rates[i] for name, rates in predictions.items())
        for i in range(len(horizons_s))
    ]
    growth = max(means) / max(means[0], 1e-6) - 1.0
    room = _room_to_climb(known_s=now_s - since_s, growth=growth, tuning=tuning)
    near, far = (
        _errors(scored, weights, floor_rps, now_s, near=near, tuning=tuning)
        for near in (True, False)
    )
    for i, horizon_s in enumerate(horizons_s):
        mean_rps = means[i]
        share = min(1.0, max(0.0, (horizon_s - numbers.near_s) / max(1.0, lead_s - numbers.near_s)))
        spread = sqrt(max(mean_rps, 0.25 * floor_rps) * floor_rps) * numbers.error_scale_ratio
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
        # A prediction from half of the traffic says nothing about the quality of predictions.
        said = {s: {n: r[i] for n, r in predictions.items()} for i, s in enumerate(horizons_s)}
        near_s = horizons_s[1]
        record = record.foreseen(
            Pending(made_s=now_s, due_s=now_s + near_s, near=True, rates=said[near_s]),
            Pending(made_s=now_s, due_s=now_s + lead_s, near=False, rates=said[lead_s]),
        )
    jumped = _jumped_up(counts, step_age_s, tuning=tuning)
    made = Forecast(lead_s=lead_s, levels=tuple(levels), jumped=jumped, room=room, tuning=tuning)
    return made, record


def _room_to_climb(*, known_s: float, growth: float, tuning: Tuning = TUNING) -> float:
    """Return the factor on all rates while young traffic climbs.

    `growth` is the predicted growth, as a share of the present rate.
    """
    numbers = tuning.forecast
    none, clear = numbers.no_growth_share, numbers.clear_growth_share
    young = (numbers.grown_s - known_s) / (numbers.grown_s - numbers.young_s)
    climbing = min(1.0, max(0.0, (growth - none) / (clear - none)))
    return 1.0 + numbers.young_room_share * min(1.0, max(0.0, young)) * climbing


def _jumped_up(counts: Sequence[float], step_age_s: int | None, *, tuning: Tuning = TUNING) -> bool:
    """Return whether the last step is recent and upwards."""
    if step_age_s is None or step_age_s > tuning.forecast.jump_news_s:
        return False
    before = counts[-2 * step_age_s : -step_age_s]
    return sum(counts[-step_age_s:]) > sum(before) * step_age_s / max(1, len(before))


def _horizons_s(lead_s: float, *, tuning: Tuning = TUNING) -> list[float]:
    near_s = min(tuning.forecast.near_s, 0.5 * lead_s)
    ahead_s = tuning.forecast.look_ahead_s
    return [2.0, near_s, 0.5 * (near_s + lead_s), lead_s, lead_s + ahead_s]


def _ceiling_rps(counts: Sequence[float], *, tuning: Tuning = TUNING) -> float:
    """Return the highest rate that a trend can predict: a jump is not a trend."""
    recent = counts[-15:]
    level = sum(recent) / len(recent)
    return tuning.forecast.most_growth_ratio * (level + sqrt(level / len(recent)))


def _weights(
    track: Track,
    predictions: Mapping[str, Sequence[float]],
    seasons: Mapping[str, Season],
    *,
    climb: Climb | None = None,
    tuning: Tuning = TUNING,
) -> dict[str, float]:
    """Return the weight of each expert, from its losses and its first weight.

    Past losses say little about a climb that has just begun. So a certain one takes weight from the
    experts without it, by its likelihood.
    """
    trust, caution = tuning.forecast.scores_to_trust, tuning.forecast.season_caution_ratio
    scored = [loss for loss in track.losses.values() if loss.weight > 0.0]
    overall = sum(o.total for o in scored) / sum(o.weight for o in scored) if scored else 0.0
    # The luckiest of few scores is not the best: each expert starts from the average of all. Only a
    # season has shown its quality on the whole history.
    first = dict.fromkeys(predictions, overall)
    for name, each in seasons.items():
        first[name] = caution * LOSS_PER_DEVIATION * each.error_rps
    # All experts predict calm traffic well. A change within a period would have surprised the
    # others.
    moved_rps = max((each.moved_rps for each in seasons.values()), default=0.0)
    unscored = Loss(0.0, 0.0)
    losses = {
        name: (loss.total + trust * first[name]) / (loss.weight + trust)
        for name in predictions
        for loss in (track.losses.get(name, unscored),)
    }
    losses |= {
        name: max(loss, LOSS_PER_DEVIATION * moved_rps)
        for name, loss in losses.items()
        if name in EXPERTS
    }
    least = max(min(losses.values()), 1e-9)
    sharpness = tuning.forecast.belief_sharpness
    weights = {
        name: _worth(name) * exp(-min(50.0, sharpness * (loss / least - 1.0)))
        for name, loss in losses.items()
    }
    if climb is not None:
        beyond = climb.certainty - tuning.forecast.climb_certain_variances
        unlikely = exp(-min(50.0, 0.5 * beyond))
        for name in weights.keys() & EXPERTS.keys():
            weights[name] *= unlikely
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


def _worth(name: str) -> float:
    return EXPERTS[name].worth if name in EXPERTS else 1.0


def _errors(
    track: Track,
    weights: Mapping[str, float],
    floor_rps: float,
    now_s: float,
    *,
    near: bool,
    tuning: Tuning = TUNING,
) -> list[float]:
    """Return quantiles of the mixture's own errors, in units of sqrt(rate x mean)."""
    numbers = tuning.forecast
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
        age = miss.weight * exp(-max(0.0, now_s - miss.at_s) / numbers.error_memory_s)
        # A step is rare, and known once it has come: it may widen the margin, but not double it.
        error = (miss.actual_rps - mixed) / scale
        errors.append((min(numbers.most_error, max(-numbers.most_error, error)), age))
    if len(errors) > 10:
        # The actual rate was counted over a few seconds: its own chance is no forecast error.
        variance = sum(e * e for e, _ in errors) / len(errors)
        chance = 1.0 / (numbers.score_window_s * floor_rps)
        shrink = sqrt(max(0.1, 1.0 - chance / max(variance, 1e-9)))
        errors = [(e * shrink, age) for e, age in errors]
    # An expert with few errors may only have few predictions.
    prior, least = numbers.error_prior_predictions, numbers.least_error
    unseen = prior / (prior + sum(age for _, age in errors))
    spread = least + unseen * (numbers.first_error - least)
    errors.extend((spread * z, prior / len(NORMAL)) for z in NORMAL)
    # A forecast that was too high on the way down may be too low on the way up.
    either = [(sign * e, 0.5 * age) for e, age in errors for sign in (1.0, -1.0)]
    both = zip(
        _quantiles(sorted(errors), numbers.error_samples),
        _quantiles(sorted(either), numbers.error_samples),
        strict=True,
    )
    return [max(each) for each in both]


def _quantiles(ordered: Sequence[tuple[float, float]], count: int) -> list[float]:
    """Return the values at the middles of `count` equal shares of the weight."""
    total = sum(weight for _, weight in ordered)
    wanted = [total * (i + 0.5) / count for i in range(count)]
    found: list[float] = []
    passed = 0.0
    for value, weight in ordered:
        passed += weight
        while len(found) < count and wanted[len(found)] <= passed:
            found.append(value)
    return found + [ordered[-1][0]] * (count - len(found))
