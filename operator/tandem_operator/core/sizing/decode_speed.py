"""The speed of a decode replica for the routers, which admit only as much as it can serve."""

from dataclasses import dataclass

from tandem_operator.core.learn.least_squares import Triple, dot
from tandem_operator.core.sizing.demand import Situation
from tandem_operator.core.tuning.tuning import TUNING, Tuning


@dataclass(frozen=True, slots=True)
class TimedDecodePace:
    """The speed of one decode replica, from its timed steps.

    Attributes:
        steps: a step takes steps[0] + steps[1] x streams + steps[2] x their KV tokens seconds.
        kv_capacity_tokens: tokens that its cache holds; `None`: not known.
        output_tokens: output of a request, for a router without a finished one; `None`: not known.
        told_s: epoch seconds since which these values are sent.
    """

    steps: Triple
    kv_capacity_tokens: float | None
    max_num_seqs: int
    output_tokens: float | None = None
    told_s: float = 0.0

    def step_s(self, streams: float, kv_tokens: float) -> float:
        """Return the seconds of a step with this many streams and cached tokens."""
        return dot(self.steps, (1.0, streams, kv_tokens))


def pace_to_tell(
    last: TimedDecodePace | None,
    situation: Situation | None,
    *,
    max_num_seqs: int,
    now_s: float,
    tuning: Tuning = TUNING,
) -> TimedDecodePace | None:
    """Return the values for the routers; the last sent ones if they are still valid.

    The last values are valid while they give the right time for a single stream and for the largest
    batch, and for `pace_holds_s` in any case. Violations correct sizing, but not these values.
    Requests that would be late are not admitted, so few violations say nothing about speed.
    """
    if situation is None:
        return last
    sizing, work = tuning.sizing, situation.decode
    pace = TimedDecodePace(
        steps=situation.models.step.coefficients(tuning=tuning),
        kv_capacity_tokens=situation.models.kv_capacity_tokens,
        max_num_seqs=max_num_seqs,
        output_tokens=work.outputs.mean_tokens,
        told_s=now_s,
    )
    if last is None or last.max_num_seqs != max_num_seqs:
        return pace
    if 0.0 <= now_s - last.told_s < sizing.pace_holds_s:
        return last
    here = ((streams, streams * work.context_tokens) for streams in (1.0, work.batch))
    within = sizing.same_pace_share
    same = (
        all(_same(last.step_s(*at), pace.step_s(*at), within) for at in here)
        and _same(last.kv_capacity_tokens or 0.0, pace.kv_capacity_tokens or 0.0, within)
        and _same(last.output_tokens or 0.0, work.outputs.mean_tokens, sizing.same_outputs_share)
    )
    return last if same else pace


def _same(before: float, now: float, within: float) -> bool:
    return abs(before - now) <= within * now
