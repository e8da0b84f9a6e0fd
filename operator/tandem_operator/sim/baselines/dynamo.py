"""NVIDIA Dynamo's SLA planner by its published formulas: a throughput loop and a load loop.

The throughput loop sizes for the mean demand of the last window at full use of an engine. If the
load loop runs too, this result is its floor. The load loop moves one replica at a time by estimates
of TTFT and ITL. The forecast is its `constant` predictor: the next window is like the last.
Requests that Tandem's router holds back would wait at Dynamo's engines, so the load loop counts
them there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from tandem_operator.core.observation import EngineSample, Observation
from tandem_operator.core.observe.arrivals import merge, outcomes
from tandem_operator.core.role import Role
from tandem_operator.core.spec import PoolSpec
from tandem_operator.sim.baselines.signals import fleet_of, queued_tokens
from tandem_operator.sim.engines.profile import EngineProfile
from tandem_operator.sim.policy import PolicyAnswer

MOST_STEP = 8
MOST_HIT_SHARE = 0.95
SHRINK_SHARE = 0.8
LEAST_OBSERVATIONS = 5
LOAD_WINDOW_S = 60.0


@dataclass(frozen=True, slots=True)
class DynamoSettings:
    """The active loops, their intervals, and the floor that an operator sets by hand."""

    throughput_s: float | None = 180.0
    load_s: float | None = None
    floor: Mapping[Role, int] | None = None

    def __post_init__(self) -> None:
        if self.throughput_s is None and self.load_s is None:
            raise ValueError("at least one loop must run, such as throughput_s=180")


@dataclass(frozen=True, slots=True)
class WindowMeans:
    """The means of one window."""

    rate_rps: float
    prompt_tokens: float
    output_tokens: float
    hit_share: float


class Dynamo:
    """Both loops, with the profile that the planner gets too."""

    def __init__(self, profile: EngineProfile, settings: DynamoSettings) -> None:
        self._profile = profile
        self._settings = settings
        self._least: dict[Role, int] = {}
        self._sized_s: float | None = None
        self._observed = 0
        self._last: WindowMeans | None = None

    @property
    def name(self) -> str:
        """Return the active loops and the floor."""
        parts = [
            f"{kind} {seconds:g} s"
            for kind, seconds in (
                ("throughput", self._settings.throughput_s),
                ("load", self._settings.load_s),
            )
            if seconds is not None
        ]
        floor = self._settings.floor
        if floor is not None:
            parts.append(f"floor {floor[Role.PREFILL]}P{floor[Role.DECODE]}D")
        return f"dynamo formulas ({', '.join(parts)})"

    def tick(self, spec: PoolSpec, observation: Observation, now_s: float) -> PolicyAnswer:
        """Run one tick of each loop that is due."""
        settings = self._settings
        self._observed += 1
        window_s = settings.throughput_s or LOAD_WINDOW_S
        if self._sized_s is None:
            self._sized_s = now_s
        if settings.throughput_s is None or now_s - self._sized_s >= window_s - 1e-6:
            self._sized_s = now_s
            self._last = _demand(observation, int(window_s)) or self._last
            if self._last is not None and settings.throughput_s is not None:
                self._least = self._sized(spec, self._last)
        asked = {role: fleet_of(observation, role).asked for role in Role}
        if settings.load_s is None:
            moved = {**asked, **self._least}
        else:
            moved = self._loaded(spec, observation, asked)
        replicas = {}
        for role, bounds in spec.roles.items():
            floor = max(self._least.get(role, 1), (settings.floor or {}).get(role, 1))
            to = max(moved[role], floor)
            to = min(max(to, asked[role] - MOST_STEP), asked[role] + MOST_STEP)
            replicas[role] = min(max(to, bounds.min_replicas, 1), bounds.max_replicas)
        every_s = [s for s in (settings.throughput_s, settings.load_s) if s is not None]
        return PolicyAnswer(replicas=replicas, next_tick_s=min(every_s))

    def _sized(self, spec: PoolSpec, demand: WindowMeans) -> dict[Role, int]:
        """Return the engines that the mean demand keeps fully busy."""
        rps = {
            Role.PREFILL: self._prefill_rps(spec, demand),
            Role.DECODE: self._decode_rps(spec, demand),
        }
        return {role: max(1, ceil(demand.rate_rps / rps[role])) for role in Role}

    def _prefill_rps(self, spec: PoolSpec, demand: WindowMeans) -> float:
        profile = self._profile
        tokens = max(1.0, demand.prompt_tokens * (1.0 - min(demand.hit_share, MOST_HIT_SHARE)))
        best = 1.0 / profile.service_s(tokens)
        for batch in range(2, int(profile.max_num_batched_tokens / tokens) + 1):
            pass_s = profile.work_s(batch * tokens) + batch * profile.attention_s(0, tokens)
            if pass_s > spec.slo.ttft_bound_s(demand.prompt_tokens):
                break
            best = max(best, batch / pass_s)
        return best

    def _decode_rps(self, spec: PoolSpec, demand: WindowMeans) -> float:
        profile = self._profile
        context = demand.prompt_tokens + demand.output_tokens / 2
        batch = profile.largest_batch(spec.slo.tpot_s, context)
        return batch / (demand.output_tokens * profile.step_s(batch, batch * context))

    def _loaded(
        self, spec: PoolSpec, observation: Observation, asked: Mapping[Role, int]
    ) -> dict[Role, int]:
        replicas = dict(asked)
        fleets = {role: fleet_of(observation, role) for role in Role}
        scaling = any(fleet.ready != fleet.asked for fleet in fleets.values())
        if scaling or self._observed < LEAST_OBSERVATIONS:
            return replicas
        for role in Role:
            samples = [s for s in observation.engines if s.role is role]
            count = len(samples)
            if count == 0 or count != asked[role]:
                continue
            bound_s = spec.slo.ttft_s if role is Role.PREFILL else spec.slo.tpot_s
            held = queued_tokens(observation.routers, role) / count
            now = [self._estimate_s(role, sample, held, 1.0) for sample in samples]
            if min(now) > bound_s:
                replicas[role] = count + 1
            elif count > 1:
                fewer = [self._estimate_s(role, s, held, count / (count - 1)) for s in samples]
                if max(fewer) < SHRINK_SHARE * bound_s:
                    replicas[role] = count - 1
        return replicas

    def _estimate_s(self, role: Role, sample: EngineSample, held: float, factor: float) -> float:
        """Return TTFT of a mean prompt behind the engine's load, or ITL with all of that load.

        The load is the engine's report and the `held` prompt tokens.
        """
        profile = self._profile
        used = (sample.kv_usage_ratio or 0.0) * (sample.kv_capacity_tokens or 0.0)
        tokens = (used + held) * factor
        mean = self._last.prompt_tokens if self._last is not None else 0.0
        if role is Role.DECODE:
            requests = sample.running + sample.waiting + held / max(1.0, mean)
            tokens += sample.waiting * mean * factor
            return profile.step_s(max(1, round(requests * factor)), tokens)
        # Chunked drain: waiting prompts go in full passes, without regard to attention.
        passes = (tokens + mean) / profile.max_num_batched_tokens
        return passes * profile.work_s(profile.max_num_batched_tokens)


def _demand(observation: Observation, window_s: int) -> WindowMeans | None:
    arrivals = merge(observation.routers, expected=observation.router_pods)
    seconds = [s for at, s in arrivals.seconds.items() if at >= arrivals.end_s - window_s]
    requests = sum(group.requests for second in seconds for group in second.groups)
    ended = outcomes(observation.routers, window_s=window_s)
    if requests == 0 or ended.answered == 0:
        return None
    prompts = sum(g.requests * g.prompt_tokens for second in seconds for g in second.groups)
    cached = sum(second.cached_tokens for second in seconds)
    return WindowMeans(
        rate_rps=arrivals.rate_rps(window_s) or 0.0,
        prompt_tokens=prompts / requests,
        output_tokens=ended.output_tokens / ended.answered,
        hit_share=cached / prompts if prompts > 0.0 else 0.0,
    )
