"""What was foreseen and what then came: open predictions, past errors, each expert's losses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp

from tandem_operator.core.observe.arrivals import Arrivals
from tandem_operator.core.tuning.tuning import TUNING, Tuning

ERRORS_KEPT = 60
FAR_KEPT = 100
PENDING_KEPT = 2 * FAR_KEPT


@dataclass(frozen=True, slots=True)
class Pending:
    """A prediction whose time has not come yet."""

    made_s: float
    due_s: float
    near: bool
    rates: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Miss:
    """What came of a prediction: the experts' rates and the rate that was.

    `weight` is small where the level jumped in between: that tells of the jump, which is known by
    now, and little of what is to come.
    """

    at_s: float
    near: bool
    rates: Mapping[str, float]
    actual_rps: float
    weight: float


@dataclass(frozen=True, slots=True)
class Loss:
    """Faded sum and weight of one expert's pinball losses."""

    total: float
    weight: float


@dataclass(frozen=True, slots=True)
class Track:
    """The forecaster's record: open predictions, past misses, losses by expert.

    Attributes:
        since_s: when the first arrival was seen that anything is known of.
    """

    pending: tuple[Pending, ...] = ()
    misses: tuple[Miss, ...] = ()
    losses: Mapping[str, Loss] = field(default_factory=dict)
    at_s: float | None = None
    since_s: float | None = None

    def foreseen(self, near: Pending, far: Pending) -> "Track":
        """The record with what the experts say now of soon, and of when a start is over."""
        pending = (*self.pending, near)
        # As many wait at once as are kept, however long a start takes and however often is looked:
        # the oldest must live until it is due.
        last_s = max((p.made_s for p in self.pending if not p.near), default=None)
        apart_s = (far.due_s - far.made_s) / FAR_KEPT
        if last_s is None or not 0.0 <= far.made_s - last_s < apart_s:
            pending = (*pending, far)
        return replace(self, pending=pending[-PENDING_KEPT:])


def score(
    track: Track,
    arrivals: Arrivals,
    step_age_s: int | None,
    now_s: float,
    *,
    tuning: Tuning = TUNING,
) -> Track:
    """Compare the predictions that came due with what then arrived."""
    window_s, quantile = tuning.forecast.score_window_s, tuning.forecast.pinball_share
    due = [p for p in track.pending if p.due_s + window_s / 2 <= arrivals.end_s]
    if not arrivals.complete or not due:
        # A lower bound proves no prediction wrong.
        return track
    step_s = 5.0 if track.at_s is None else min(60.0, max(0.1, now_s - track.at_s))
    losses, misses = dict(track.losses), list(track.misses)
    first_s = arrivals.end_s - len(arrivals.counts)
    stepped_s = None if step_age_s is None else arrivals.end_s - step_age_s
    for prediction in due:
        start = int(prediction.due_s - window_s / 2) - first_s
        seen = arrivals.counts[max(0, start) : start + window_s] if start >= 0 else ()
        if len(seen) < window_s:
            continue
        actual = sum(seen) / len(seen)
        jumped = stepped_s is not None and prediction.made_s < stepped_s <= prediction.due_s
        misses.append(
            Miss(
                at_s=prediction.due_s,
                near=prediction.near,
                rates=prediction.rates,
                actual_rps=actual,
                weight=tuning.forecast.jump_miss_weight if jumped else 1.0,
            )
        )
        if prediction.near or jumped:
            continue
        keep = exp(-step_s / tuning.forecast.loss_memory_s)
        for name, rate in prediction.rates.items():
            error = actual - rate
            loss = max(quantile * error, (quantile - 1.0) * error)
            old = losses.get(name, Loss(0.0, 0.0))
            losses[name] = Loss(old.total * keep + loss, old.weight * keep + 1.0)
    return Track(
        pending=tuple(p for p in track.pending if p not in due),
        misses=_kept(misses),
        losses=losses,
        at_s=track.at_s,
    )


def _kept(misses: Sequence[Miss]) -> tuple[Miss, ...]:
    """The latest of both kinds: predictions of soon come due more often than those of a long start.

    What one kind leaves of its half the other may use.
    """
    near, far = ([m for m in misses if m.near is kind] for kind in (True, False))
    far = far[-max(ERRORS_KEPT, 2 * ERRORS_KEPT - len(near)) :]
    return (*near[len(far) - 2 * ERRORS_KEPT :], *far)
