"""The bound: a schedule that knows every arrival, by one fixed rule for all traces.

Work and output tokens of the next eight seconds, at 0.82 of prefill's and 0.9 of decode's capacity,
ordered one start-up time ahead.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import ceil
from typing import Any

from benchmarks.replay.setup import Profile
from tandem_operator.sim.traces.trace import Trace

PREFILL_LOAD, DECODE_LOAD = 0.82, 0.9
WINDOW_S = 8
LEAD_SLACK_S = 2
FIRST_TICK_MS, TICK_MS = 1000.0, 2000.0

Schedule = Mapping[str, Any]


def schedule(trace: Trace, profile: Profile, *, itl_s: float, startup_s: float) -> Schedule:
    """Return the replicas that each second needs of each role, and how far ahead to order them."""
    seconds = int(trace.span_s) + 200
    work, tokens = [0.0] * seconds, [0.0] * seconds
    for request in trace.requests:
        second = int(request.at_s)
        work[second] += profile.service_s(request.prompt_tokens)
        tokens[second + 1] += request.output_tokens
    prompts = sum(r.prompt_tokens for r in trace.requests) / len(trace.requests)
    outputs = sum(r.output_tokens for r in trace.requests) / len(trace.requests)
    speed = profile.tokens_per_s(context_tokens=prompts + outputs / 2.0, itl_s=itl_s)
    return {
        "prefill": _needed(work, PREFILL_LOAD),
        "decode": _needed(tokens, DECODE_LOAD * speed),
        "lead_s": ceil(startup_s) + LEAD_SLACK_S,
    }


class Clairvoyant:
    """A scaling policy of the simulator."""

    def __init__(self, plan: Schedule) -> None:
        self._plan = plan

    def initial_tick_ms(self) -> float:
        """Return the time of the simulator's first question."""
        return FIRST_TICK_MS

    def on_tick(self, snapshot: Mapping[str, Any]) -> dict[str, float]:
        """Return the largest need until a replica that is ordered now would be ready."""
        now_s = int(snapshot["now_ms"] / 1000.0)
        return {
            "target_prefill": self._peak(self._plan["prefill"], now_s),
            "target_decode": self._peak(self._plan["decode"], now_s),
            "next_tick_ms": snapshot["now_ms"] + TICK_MS,
        }

    def _peak(self, needed: Sequence[int], now_s: int) -> int:
        start = min(now_s, len(needed) - 1)
        return max(needed[start : start + self._plan["lead_s"] + 1])


def _needed(demand: Sequence[float], per_replica: float) -> list[int]:
    """Return the replicas for the mean of the `WINDOW_S` seconds that begin at each second."""
    sums = [0.0, *accumulate(demand)]
    return [
        max(1, ceil((sums[second + WINDOW_S] - sums[second]) / WINDOW_S / per_replica))
        for second in range(len(demand) - WINDOW_S)
    ]
