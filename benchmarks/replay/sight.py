"""See the simulated pool as the live operator sees a real one: routers, engines, pods.

The simulator tells averages over the time since it last asked and one forward pass per engine.
Asked ten times a second, an average covers a request or two, and hardly a prefill pass is missed.
From that come the running totals that routers and engines export. Nothing from the future is looked
at: arrivals of seconds that are over, outputs of requests that ended.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.replay.setup import Setup
from tandem_operator.core.observation import (
    ArrivalSecond,
    EngineSample,
    FinishedSecond,
    Latency,
    Leg,
    Observation,
    PodPhase,
    PodState,
    Quantiles,
    RouterReport,
)
from tandem_operator.core.role import Role
from tandem_operator.sim.traces.trace import TraceRequest
from tandem_routing.history import BUCKET_EDGES_TOKENS, HISTORY_S, prompt_bucket

EPOCH_S = 1_790_000_000.0
LATENCY_WINDOW_S = 120.0
ROUTER, REVISION = "replay", "replay"

Snapshot = Mapping[str, Any]


@dataclass(slots=True)
class _Engine:
    """One engine's running totals."""

    role: Role
    running: float = 0.0
    waiting: float = 0.0
    kv_tokens: float = 0.0
    itl_sum_s: float = 0.0
    itl_count: float = 0.0
    busy_s: float = 0.0
    requests: int = 0
    prompt_tokens: int = 0
    contexts: float = 0.0


@dataclass(slots=True)
class _Ended:
    """The requests that ended within one second."""

    finished: int = 0
    late_ttft: int = 0
    late_tpot: int = 0
    late: int = 0
    tokens: float = 0.0
    squares: float = 0.0
    blame: dict[str, int] | None = None


class Sight:
    """Gathers snapshots and shows them as an `Observation`."""

    def __init__(self, requests: Sequence[TraceRequest], setup: Setup) -> None:
        self._setup = setup
        self._arrivals = _by_second(requests)
        self._arrived: deque[ArrivalSecond] = deque(maxlen=HISTORY_S)
        self._next_second = 0
        self._ended: dict[int, _Ended] = {}
        self._latency: deque[tuple[float, float, float, int]] = deque()
        self._pods: dict[str, PodState] = {}
        self._engines: dict[str, _Engine] = {}
        self._outputs = _Spread()
        self._cache_hits, self._cache_lookups = 0.0, 0.0
        self._waiting_tokens, self._waiting = 0, 0
        self._decoding, self._prefilling = 0, 0
        self._decode_waits = False
        self._last_s = 0.0

    def cached(self, *, hit_tokens: float, looked_up_tokens: float) -> None:
        """Note what the engines' prefix caches held of the prompts they looked up."""
        self._cache_hits += hit_tokens
        self._cache_lookups += looked_up_tokens

    def take(self, snapshot: Snapshot) -> None:
        """Note one snapshot."""
        now_s = snapshot["now_ms"] / 1000.0
        self._see_pods(snapshot, now_s)
        self._see_prefill(snapshot)
        self._see_decode(snapshot, now_s - self._last_s)
        self._see_ended(snapshot["traffic"], now_s)
        share = self._cache_hits / self._cache_lookups if self._cache_lookups else 0.0
        while self._next_second + 1 <= now_s:
            row = self._arrivals.get(self._next_second)
            if row is not None:
                cached = int(share * sum(row.prompt_tokens))
                self._arrived.append(replace(row, cached_tokens=cached))
            self._next_second += 1
        self._last_s = now_s

    def observation(self, replicas: Mapping[Role, int]) -> Observation:
        """Return the pool as of the last snapshot."""
        at_s = EPOCH_S + self._last_s
        return Observation(
            replicas=dict(replicas),
            pods=tuple(self._pods.values()),
            engines=tuple(
                self._sample(name, engine, at_s)
                for name, engine in sorted(self._engines.items())
                if self._pods[name].phase is PodPhase.READY
            ),
            routers=(self._report(at_s),),
            router_pods=1,
            latency=self._quantiles(at_s),
        )

    def _see_pods(self, snapshot: Snapshot, now_s: float) -> None:
        at_s = EPOCH_S + now_s
        seen: dict[str, PodState] = {}
        for role in Role:
            phases = (("active", PodPhase.READY), ("starting", PodPhase.STARTING))
            for state, phase in (*phases, ("draining", PodPhase.TERMINATING)):
                for worker in snapshot[f"{state}_{role.value}_ids"]:
                    name = _name(role, worker)
                    pod = self._pods.get(name) or self._created(role, name, at_s)
                    if phase is PodPhase.READY and pod.ready_s is None:
                        pod = replace(pod, ready_s=at_s)
                    seen[name] = replace(pod, phase=phase)
        self._pods = seen
        self._engines = {
            name: self._engines.get(name) or _Engine(pod.role) for name, pod in seen.items()
        }

    def _created(self, role: Role, name: str, at_s: float) -> PodState:
        # The pods of the first moment took as long to start as any.
        first = not self._pods and self._next_second == 0
        created_s = at_s - self._setup.startup_s if first else at_s
        return PodState(name, role, REVISION, PodPhase.STARTING, created_s)

    def _see_prefill(self, snapshot: Snapshot) -> None:
        fresh = {_name(Role.PREFILL, p["worker_id"]): p for p in snapshot["prefill_fpm_snapshots"]}
        for name, engine in self._engines.items():
            if engine.role is not Role.PREFILL:
                continue
            one = fresh.get(name)
            if one is None:
                engine.running = engine.waiting = 0.0
                continue
            count, tokens = one["num_prefill_requests"], one["sum_prefill_tokens"]
            engine.running, engine.waiting = count, one["num_queued_prefill"]
            if count > 0 and one["wall_time"] > 0.0:
                engine.busy_s += one["wall_time"]
                engine.requests += count
                engine.prompt_tokens += tokens
                context = (0.5 * tokens + one["sum_prefill_kv_tokens"]) / count
                engine.contexts += tokens * context
        self._waiting = sum(p["num_queued_prefill"] for p in fresh.values())
        self._waiting_tokens = sum(p["sum_queued_prefill_tokens"] for p in fresh.values())
        self._prefilling = sum(p["num_prefill_requests"] for p in fresh.values())

    def _see_decode(self, snapshot: Snapshot, span_s: float) -> None:
        fresh = {_name(Role.DECODE, d["worker_id"]): d for d in snapshot["decode_fpm_snapshots"]}
        for name, engine in self._engines.items():
            if engine.role is not Role.DECODE:
                continue
            one = fresh.get(name)
            if one is None:
                engine.running = engine.waiting = engine.kv_tokens = 0.0
                continue
            engine.running, engine.waiting = one["num_decode_requests"], one["num_queued_decode"]
            engine.kv_tokens = one["sum_decode_kv_tokens"]
            if engine.running > 0 and one["wall_time"] > 0.0:
                # Every running stream adds one second of gaps per second.
                engine.itl_sum_s += engine.running * span_s
                engine.itl_count += engine.running * span_s / one["wall_time"]
        self._decoding = sum(d["num_decode_requests"] for d in fresh.values())
        self._decode_waits = any(d["num_queued_decode"] > 0 for d in fresh.values())

    def _see_ended(self, traffic: Snapshot, now_s: float) -> None:
        count = traffic["ttft_count"]
        if count == 0:
            return
        ttft_s, tpot_s = traffic["avg_ttft_ms"] / 1000.0, traffic["avg_itl_ms"] / 1000.0
        ended = self._ended.setdefault(int(now_s), _Ended(blame={}))
        late_ttft, late_tpot = ttft_s > self._setup.ttft_s, tpot_s > self._setup.itl_s
        blame = ended.blame if ended.blame is not None else {}
        if late_ttft:
            waits = self._decode_waits and self._waiting == 0
            cause = "decode_admission" if waits else "engine_queue"
            blame[cause] = blame.get(cause, 0) + count
            ended.late_ttft += count
        if late_tpot:
            blame["decode_step"] = blame.get("decode_step", 0) + count
            ended.late_tpot += count
        if late_ttft or late_tpot:
            ended.late += count
        ended.finished += count
        self._outputs.add(traffic["avg_osl"], count)
        ended.tokens += traffic["avg_osl"] * count
        ended.squares += traffic["avg_osl"] ** 2 * count
        ended.squares += self._outputs.variance * (count - 1)
        self._latency.append((now_s, ttft_s, tpot_s, count))
        while self._latency[0][0] < now_s - LATENCY_WINDOW_S:
            self._latency.popleft()
        if len(self._ended) > HISTORY_S:
            del self._ended[min(self._ended)]

    def _sample(self, name: str, engine: _Engine, at_s: float) -> EngineSample:
        decode = engine.role is Role.DECODE
        capacity = float(self._setup.kv_capacity_tokens)
        return EngineSample(
            pod=name,
            role=engine.role,
            sampled_s=at_s,
            running=engine.running,
            waiting=engine.waiting,
            kv_usage_ratio=engine.kv_tokens / capacity if decode else None,
            kv_capacity_tokens=capacity,
            itl_sum_s=engine.itl_sum_s if decode else None,
            itl_count=engine.itl_count if decode else None,
        )

    def _report(self, at_s: float) -> RouterReport:
        return RouterReport(
            router=ROUTER,
            sampled_s=at_s,
            started_s=EPOCH_S,
            bucket_edges_tokens=BUCKET_EDGES_TOKENS,
            arrivals=tuple(self._arrived),
            finished=tuple(
                FinishedSecond(
                    second=int(EPOCH_S) + second,
                    finished=ended.finished,
                    good=ended.finished - ended.late,
                    late_ttft=ended.late_ttft,
                    late_tpot=ended.late_tpot,
                    failed=0,
                    shed=0,
                    gone=0,
                    output_tokens=round(ended.tokens),
                    output_tokens_squared=round(ended.squares),
                    blame=dict(ended.blame or {}),
                )
                for second, ended in self._ended.items()
            ),
            queued_requests=self._waiting,
            queued_prompt_tokens=self._waiting_tokens,
            prefill_requests=self._prefilling,
            decode_requests=self._decoding,
            legs=tuple(
                Leg(
                    pod=name,
                    role=Role.PREFILL,
                    busy_s=engine.busy_s,
                    requests=engine.requests,
                    prompt_tokens=engine.prompt_tokens,
                    cached_tokens=0,
                    prompt_token_contexts=engine.contexts,
                    output_tokens=0,
                )
                for name, engine in sorted(self._engines.items())
                if engine.role is Role.PREFILL
            ),
        )

    def _quantiles(self, at_s: float) -> Latency | None:
        if not self._latency:
            return None
        ttft, tpot = (
            _quantiles([(row[column], row[3]) for row in self._latency]) for column in (1, 2)
        )
        return Latency(sampled_s=at_s, ttft=ttft, tpot=tpot)


class _Spread:
    """Variance of single values of which only small groups' means are seen."""

    def __init__(self) -> None:
        self._groups, self._values, self._sum, self._squares = 0, 0, 0.0, 0.0

    def add(self, mean: float, count: int) -> None:
        self._groups += 1
        self._values += count
        self._sum += mean * count
        self._squares += mean * mean * count

    @property
    def variance(self) -> float:
        """Return the variance of single values: each group, weighted by size, varies by as much."""
        if self._groups < 2:
            return 0.0
        within = self._squares - self._sum * self._sum / self._values
        return max(0.0, within / (self._groups - 1))


def _name(role: Role, worker: int) -> str:
    return f"{role.value}-{worker}"


def _by_second(requests: Sequence[TraceRequest]) -> dict[int, ArrivalSecond]:
    buckets = len(BUCKET_EDGES_TOKENS) + 1
    counts: dict[int, list[int]] = {}
    tokens: dict[int, list[int]] = {}
    for request in requests:
        second = int(request.at_s)
        bucket = prompt_bucket(request.prompt_tokens)
        counts.setdefault(second, [0] * buckets)[bucket] += 1
        tokens.setdefault(second, [0] * buckets)[bucket] += request.prompt_tokens
    return {
        second: ArrivalSecond(
            int(EPOCH_S) + second, tuple(counts[second]), tuple(tokens[second]), 0
        )
        for second in counts
    }


def _quantiles(weighted: list[tuple[float, int]]) -> Quantiles:
    ordered = sorted(weighted)
    total = sum(count for _, count in ordered)
    found = []
    for share in (0.5, 0.95, 0.99):
        left = share * total
        for value, count in ordered:
            left -= count
            if left <= 0.0:
                found.append(value)
                break
    return Quantiles(*found)
