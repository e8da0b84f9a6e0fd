"""The bound: replicas for the true work of the next minute, by one fixed rule for every trace.

Prefill is kept at `prefill_utilization` of the true prefill work, decode at `decode_utilization` of
the true output tokens. Both are means over a short window. The count is the highest need until a
new pod would be ready.
"""

from collections.abc import Sequence
from math import ceil

from tandem_operator.core.observation import Observation
from tandem_operator.core.role import Role
from tandem_operator.core.spec import PoolSpec
from tandem_operator.sim.engines.profile import EngineProfile
from tandem_operator.sim.policy import EPOCH_S, PolicyAnswer
from tandem_operator.sim.traces.trace import Trace

TICK_S = 2.0
WINDOW_S = 8
TAIL_S = 200
STREAM_DELAY_S = 1
READY_MARGIN_S = 2


class Clairvoyant:
    """A policy that knows every arrival and length; those after `event_s` only once they came."""

    def __init__(
        self,
        trace: Trace,
        profile: EngineProfile,
        spec: PoolSpec,
        *,
        start_s: float,
        prefill_utilization: float = 0.82,
        decode_utilization: float = 0.9,
        event_s: float | None = None,
    ) -> None:
        self.name = "clairvoyant" if event_s is None else "clairvoyant, surprised"
        self._event_s = event_s
        seconds = int(trace.span_s) + TAIL_S
        work, tokens = [0.0] * seconds, [0.0] * seconds
        count = max(1, len(trace.requests))
        context = sum(r.prompt_tokens + r.output_tokens / 2 for r in trace.requests) / count
        for request in trace.requests:
            second = int(request.at_s)
            work[second] += profile.service_s(request.prompt_tokens)
            tokens[second + STREAM_DELAY_S] += request.output_tokens
        batch = profile.largest_batch(spec.slo.tpot_s, context)
        tokens_per_s = batch / profile.step_s(batch, batch * context)
        self._lead_s = ceil(start_s) + READY_MARGIN_S
        self._needs = {
            Role.PREFILL: _needs(work, prefill_utilization),
            Role.DECODE: _needs(tokens, tokens_per_s * decode_utilization),
        }

    def tick(self, spec: PoolSpec, observation: Observation, now_s: float) -> PolicyAnswer:
        """Return the highest need until a new pod would be ready."""
        del observation
        now = int(now_s - EPOCH_S)
        replicas = {}
        for role, needs in self._needs.items():
            first = min(now, len(needs) - 1)
            wanted = max(needs[first : max(first + 1, self._until(now, first) + 1)])
            bounds = spec.roles[role]
            replicas[role] = min(max(wanted, bounds.min_replicas, 1), bounds.max_replicas)
        return PolicyAnswer(replicas=replicas, next_tick_s=TICK_S)

    def _until(self, now: int, first: int) -> int:
        """Return the last second that it looks at."""
        last = first + self._lead_s
        if self._event_s is None or now >= self._event_s:
            return last
        # A need is a mean over a window, which must not reach into the event.
        return min(last, int(self._event_s) - WINDOW_S)


def _needs(per_second: Sequence[float], one_replica: float) -> list[int]:
    """Return the replicas for the mean of each window that begins at a second."""
    sums = [0.0]
    for value in per_second:
        sums.append(sums[-1] + value)
    last = len(per_second)
    return [
        max(1, ceil((sums[min(last, i + WINDOW_S)] - sums[i]) / WINDOW_S / one_replica))
        for i in range(last)
    ]
