"""A rule of ten lines: hold the need of the last hour, grow by the last 20 s, shrink after 60 s.

The rule has no forecast and no model of error. It knows the engines' profile, and counts each
replica as fully used. Its reserve above the mean is the .95 quantile of the past hour.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from math import ceil

from tandem_operator.core.observation import Observation
from tandem_operator.core.observe.arrivals import Second, merge, outcomes
from tandem_operator.core.role import Role
from tandem_operator.core.spec import PoolSpec
from tandem_operator.sim.baselines.signals import fleet_of
from tandem_operator.sim.engines.profile import EngineProfile
from tandem_operator.sim.ledger import quantile
from tandem_operator.sim.policy import PolicyAnswer

TICK_S = 5.0
MEAN_S = 20
MEMORY_S = 3600.0
HELD_SHARE = 0.95
SHRINK_S = 60.0
# Lengths and cache hits are taken over so many seconds: neither is known yet for new requests.
LENGTHS_S = 240
ROUNDING = 1e-9


class Hold:
    """A policy for one pool; demand is counted in fully used replicas."""

    name = "hold"

    def __init__(self, profile: EngineProfile) -> None:
        self._profile = profile
        self._demands: dict[Role, deque[tuple[float, float]]] = {role: deque() for role in Role}
        self._wanted: dict[Role, deque[tuple[float, int]]] = {role: deque() for role in Role}
        self._output_tokens: float | None = None

    def tick(self, spec: PoolSpec, observation: Observation, now_s: float) -> PolicyAnswer:
        """Return the highest need within the last minute."""
        demands = self._measured(spec, observation)
        replicas = {}
        for role, bounds in spec.roles.items():
            to = fleet_of(observation, role).asked
            if role in demands:
                to = self._held(role, demands[role], now_s)
            replicas[role] = min(max(to, bounds.min_replicas, 1), bounds.max_replicas)
        return PolicyAnswer(replicas=replicas, next_tick_s=TICK_S)

    def _held(self, role: Role, demand: float, now_s: float) -> int:
        past, wanted = self._demands[role], self._wanted[role]
        past.append((now_s, demand))
        _forget(past, now_s - MEMORY_S)
        usual = quantile(sorted(value for _, value in past), HELD_SHARE) or 0.0
        wanted.append((now_s, ceil(max(usual, demand) - ROUNDING)))
        _forget(wanted, now_s - SHRINK_S)
        return max(count for _, count in wanted)

    def _measured(self, spec: PoolSpec, observation: Observation) -> Mapping[Role, float]:
        """Return the replicas that the last 20 s keep busy, without roles of unknown load."""
        arrivals = merge(observation.routers, expected=observation.router_pods)
        if arrivals.known_s < MEAN_S:
            return {}
        rows = arrivals.seconds.items()
        recent = [row for at, row in rows if at >= arrivals.end_s - MEAN_S]
        hit_share = _hit_share(row for at, row in rows if at < arrivals.end_s - MEAN_S)
        work_s = sum(
            group.requests * self._profile.service_s((1.0 - hit_share) * group.prompt_tokens)
            for row in recent
            for group in row.groups
        )
        demands = {Role.PREFILL: work_s / MEAN_S}
        ended = outcomes(observation.routers, window_s=LENGTHS_S)
        if ended.answered:
            self._output_tokens = ended.output_tokens / ended.answered
        requests, tokens = _prompts(row for _, row in rows)
        if self._output_tokens is not None and requests:
            context = tokens / requests + self._output_tokens / 2
            batch = self._profile.largest_batch(spec.slo.tpot_s, context)
            tokens_per_s = batch / self._profile.step_s(batch, batch * context)
            recent_rps = _prompts(recent)[0] / MEAN_S
            demands[Role.DECODE] = recent_rps * self._output_tokens / tokens_per_s
        return demands


def _prompts(rows: Iterable[Second]) -> tuple[int, float]:
    """Return the requests, and their prompt tokens."""
    groups = [group for row in rows for group in row.groups]
    tokens = sum(group.requests * group.prompt_tokens for group in groups)
    return sum(group.requests for group in groups), tokens


def _hit_share(rows: Iterable[Second]) -> float:
    """Return the share of prompt tokens that caches served."""
    known = tuple(rows)
    _, tokens = _prompts(known)
    return min(1.0, sum(row.cached_tokens for row in known) / tokens) if tokens > 0.0 else 0.0


def _forget(past: deque[tuple[float, float]] | deque[tuple[float, int]], before_s: float) -> None:
    while past and past[0][0] < before_s:
        past.popleft()
