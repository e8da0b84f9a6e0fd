"""Predictions against the real rates: open predictions, past errors, each expert's losses."""

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
    """A prediction that cannot be compared with the real rate yet."""

    made_s: float
    due_s: float
    near: bool
    rates: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Miss:
    """The error of a prediction: the experts' rates and the real rate.

    `weight` is small if the level jumped in between. Such an error shows the jump, which is known
    by now, and says little about the future.
    """

    at_s: float
    near: bool
    rates: Mapping[str, float]
    actual_rps: float
    weight: float


@dataclass(frozen=True, slots=True)
class Loss:
    """Sum and weight of one expert's pinball losses, with fading."""

    total: float
    weight: float


@dataclass(frozen=True, slots=True)
class Track:
    """The forecaster's record: open predictions, past misses, losses by expert.

    Attributes:
        since_s: time of the first known arrival.
    """

    pending: tuple[Pending, ...] = ()
    misses: tuple[Miss, ...] = ()
    losses: Mapping[str, Loss] = field(default_factory=dict)
    at_s: float | None = None
    since_s: float | None = None

    def foreseen(self, near: Pending, far: Pending) -> "Track":
        """Return the record with the present predictions, for soon and for the end of a start."""
        pending = (*self.pending, near)
        # The number of open predictions is limited, whatever the start-up time and the interval of
        # looks: the oldest must stay until it is due.
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
    """Compare the predictions whose time has come with the real arrivals."""
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
    """Return the latest of both kinds; predictions of soon are compared more often.

    One kind can use the part of its half that the other leaves.
    """
    near, far = ([m for m in misses if m.near is kind] for kind in (True, False))
    far = far[-max(ERRORS_KEPT, 2 * ERRORS_KEPT - len(near)) :]
    return (*near[len(far) - 2 * ERRORS_KEPT :], *far)
