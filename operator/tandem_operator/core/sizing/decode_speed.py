"""How fast a decode replica is: told to the routers, who let in no more than it bears."""

from dataclasses import dataclass

from tandem_operator.core.learn.least_squares import Triple, dot
from tandem_operator.core.sizing.demand import Situation
from tandem_operator.core.tuning.tuning import TUNING, Tuning


@dataclass(frozen=True, slots=True)
class TimedDecodePace:
    """One decode replica, as fast as its steps were timed.

    Attributes:
        steps: a step takes steps[0] + steps[1] x streams + steps[2] x their KV tokens seconds.
        kv_capacity_tokens: what its cache holds; `None`: not known.
        output_tokens: what a request makes, for a router that has seen none end; `None`: not known.
        told_s: epoch seconds since when this is what they are told.
    """

    steps: Triple
    kv_capacity_tokens: float | None
    max_num_seqs: int
    output_tokens: float | None = None
    told_s: float = 0.0

    def step_s(self, streams: float, kv_tokens: float) -> float:
        """Seconds of a step with so many streams that hold so many tokens."""
        return dot(self.steps, (1.0, streams, kv_tokens))


def pace_to_tell(
    last: TimedDecodePace | None,
    situation: Situation | None,
    *,
    max_num_seqs: int,
    now_s: float,
    tuning: Tuning = TUNING,
) -> TimedDecodePace | None:
    """What the routers should know from now on; what they were told last, where that still holds.

    The last one holds while a stream alone and the largest batch take about what it says, and for
    `pace_holds_s` in any case. Violations correct sizing, not this: those who would be late
    are not let in, so that there are few says nothing of speed.
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
