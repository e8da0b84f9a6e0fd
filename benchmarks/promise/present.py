"""A policy that knows all of the present and nothing of the future."""

from collections.abc import Sequence
from math import ceil

from tandem_operator.core.observation import Observation
from tandem_operator.core.role import Role
from tandem_operator.core.spec import PoolSpec
from tandem_operator.sim.baselines.clairvoyant import READY_MARGIN_S, TICK_S, WINDOW_S
from tandem_operator.sim.engines.profile import EngineProfile
from tandem_operator.sim.policy import EPOCH_S, PolicyAnswer
from tandem_operator.sim.traces.trace import Trace

TREND_S = 60
SHRINK_S = 60
PREFILL_UTILIZATION = 0.82
DECODE_UTILIZATION = 0.9


class Present:
    """A policy that knows each request once it came, with its whole answer, and the engines' speed.

    It expects more of the same, or with `trend`, that the growth of the last minute goes on until a
    new pod is ready. It counts replicas as `Clairvoyant` does, and shrinks after a minute.
    """

    def __init__(
        self,
        trace: Trace,
        profile: EngineProfile,
        spec: PoolSpec,
        *,
        start_s: float,
        trend: bool,
    ) -> None:
        self.name = "present, with its trend" if trend else "present"
        self._ahead_s = start_s + READY_MARGIN_S if trend else 0.0
        seconds = int(trace.span_s) + 1
        work, tokens = [0.0] * (seconds + 1), [0.0] * (seconds + 1)
        for request in trace.requests:
            # Known from the next second on.
            second = min(int(request.at_s) + 1, seconds)
            work[second] += profile.service_s(request.prompt_tokens)
            context = request.prompt_tokens + request.output_tokens / 2
            batch = profile.largest_batch(spec.slo.tpot_s, context)
            tokens_per_s = batch / profile.step_s(batch, batch * context)
            tokens[second] += request.output_tokens / tokens_per_s
        self._known = {
            Role.PREFILL: _sums(work, PREFILL_UTILIZATION),
            Role.DECODE: _sums(tokens, DECODE_UTILIZATION),
        }
        self._wanted: dict[Role, dict[int, int]] = {role: {} for role in Role}

    def tick(self, spec: PoolSpec, observation: Observation, now_s: float) -> PolicyAnswer:
        """Return the highest need of the last minute."""
        del observation
        now = int(now_s - EPOCH_S)
        replicas = {}
        for role, sums in self._known.items():
            wanted = self._wanted[role]
            wanted[now] = ceil(self._need(sums, now))
            for at in [at for at in wanted if at < now - SHRINK_S]:
                del wanted[at]
            bounds = spec.roles[role]
            most = max(wanted.values())
            replicas[role] = min(max(most, bounds.min_replicas, 1), bounds.max_replicas)
        return PolicyAnswer(replicas=replicas, next_tick_s=TICK_S)

    def _need(self, sums: Sequence[float], now: int) -> float:
        """Return the fully used replicas of the last moments, and of the time until a pod helps."""
        need = _mean(sums, now - WINDOW_S, now)
        if not self._ahead_s:
            return need
        half = TREND_S // 2
        earlier = _mean(sums, now - TREND_S, now - half)
        later = _mean(sums, now - half, now)
        return max(need, later + (later - earlier) / half * (half / 2 + self._ahead_s))


def _sums(per_second: Sequence[float], utilization: float) -> list[float]:
    """Return the running sums of replicas in need of one second each."""
    sums = [0.0]
    for value in per_second:
        sums.append(sums[-1] + value / utilization)
    return sums


def _mean(sums: Sequence[float], first: int, end: int) -> float:
    last = len(sums) - 1
    first, end = min(max(first, 0), last), min(max(end, 0), last)
    return (sums[end] - sums[first]) / (end - first) if end > first else 0.0
