"""A small simulated pool: seeded, in steps of 20 ms, seen through the same data as a real one."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import exp
from random import Random

from tandem_operator.core.decision import Decision
from tandem_operator.core.memory import Memory
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
from tandem_operator.core.spec import PoolSpec
from tandem_operator.core.tick import decide

STEP_S = 0.02
TICK_S = 5.0
EPOCH_S = 1_790_000_000.0
EDGES = (128, 512, 2048, 8192, 32768)


@dataclass(frozen=True, slots=True)
class Engine:
    """How the pool's engines really behave."""

    prefill_fixed_s: float = 0.04
    prefill_token_s: float = 0.0002
    step_s: float = 0.0147
    step_slope_s: float = 0.0009
    kv_capacity_tokens: float = 200_000.0
    max_num_seqs: int = 64
    start_s: tuple[float, float] = (50.0, 110.0)
    transfer_s: float = 0.03
    noise: float = 0.15
    prefill_per_pod: int = 4


@dataclass(frozen=True, slots=True)
class Phase:
    """Poisson load for a while, in clumps of `burst` requests, perhaps with a new TPOT target."""

    name: str
    seconds: float
    rate_rps: float
    prompt_tokens: int
    output_tokens: int
    burst: int = 1
    tpot_s: float | None = None


@dataclass(slots=True)
class Request:
    at_s: float
    prompt: int
    output: int
    work_s: float
    sent_s: float = 0.0
    prefilled_s: float = 0.0
    first_s: float | None = None
    left_s: float = 0.0
    tokens: float = 0.0
    end_s: float = 0.0


@dataclass(slots=True)
class Pod:
    name: str
    role: Role
    created_s: float
    ready_s: float
    jobs: list[Request] = field(default_factory=list)
    waiting: deque[Request] = field(default_factory=deque)
    leaving: bool = False
    busy_s: float = 0.0
    requests: int = 0
    prompt_tokens: int = 0
    contexts: float = 0.0
    itl_sum_s: float = 0.0
    itl_count: float = 0.0


@dataclass(slots=True)
class PhaseResult:
    """What one phase saw, role by role."""

    finished: int = 0
    good: int = 0
    start: Mapping[Role, int] = field(default_factory=dict)
    most: dict[Role, int] = field(default_factory=dict)
    end: Mapping[Role, int] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)

    @property
    def attainment(self) -> float:
        return self.good / self.finished if self.finished else 1.0

    def grew(self, role: Role) -> bool:
        return self.most[role] > self.start[role]


class FakePool:
    """Routers, prefill queue, decode batches and starting pods, driven by `decide`."""

    def __init__(self, spec: PoolSpec, engine: Engine, *, seed: int = 1) -> None:
        self.spec, self.engine = spec, engine
        self.random = Random(seed)
        self.now_s = EPOCH_S
        self.replicas = dict.fromkeys(Role, 1)
        self.pods: list[Pod] = []
        self.queue: deque[Request] = deque()
        self.done: list[Request] = []
        self.arrivals: dict[int, dict[int, list[int]]] = {}
        self.finished: dict[int, list[Request]] = {}
        self.memory = Memory()
        self.decisions: list[Decision] = []
        self.made = 0
        self.gpu_s = 0.0
        for role in Role:
            self._add_pod(role)
        self.now_s += 120.0
        self.started_s = self.now_s

    def _add_pod(self, role: Role) -> None:
        self.made += 1
        start_s = self.random.uniform(*self.engine.start_s)
        self.pods.append(Pod(f"{role.value}-{self.made}", role, self.now_s, self.now_s + start_s))

    def ready(self, role: Role) -> list[Pod]:
        return [
            p for p in self.pods if p.role is role and not p.leaving and p.ready_s <= self.now_s
        ]

    def run(self, phases: list[Phase]) -> dict[str, PhaseResult]:
        results = {}
        for phase in phases:
            if phase.tpot_s is not None:
                self.spec = _with_tpot(self.spec, phase.tpot_s)
            results[phase.name] = self._run_phase(phase)
        return results

    def _run_phase(self, phase: Phase) -> PhaseResult:
        result = PhaseResult(start=dict(self.replicas), most=dict(self.replicas))
        finished_before = len(self.done)
        end_s = self.now_s + phase.seconds
        arrivals = self._arrivals(phase, end_s)
        coming = next(arrivals, None)
        tick_s = self.now_s + TICK_S
        while self.now_s < end_s:
            while coming is not None and coming.at_s <= self.now_s:
                self._enter(coming)
                coming = next(arrivals, None)
            self._step()
            self.now_s += STEP_S
            if self.now_s >= tick_s:
                tick_s += TICK_S
                decision = self.tick()
                for role in Role:
                    result.most[role] = max(result.most[role], self.replicas[role])
                    plan = decision.roles[role]
                    if plan.to != plan.current:
                        at = f"{self.now_s - self.started_s:.0f} s: "
                        result.changes.append(at + plan.sentence)
        ended = self.done[finished_before:]
        result.finished = len(ended)
        result.good = sum(1 for r in ended if self._blame(r) is None)
        result.end = dict(self.replicas)
        return result

    def _arrivals(self, phase: Phase, end_s: float) -> Iterator[Request]:
        at_s, noise = self.now_s, self.engine.noise
        if phase.rate_rps <= 0.0:
            return
        while True:
            at_s += self.random.expovariate(phase.rate_rps / phase.burst)
            if at_s >= end_s:
                return
            for _ in range(phase.burst):
                prompt = max(8, int(phase.prompt_tokens * self.random.uniform(0.8, 1.2)))
                work_s = self.engine.prefill_fixed_s + self.engine.prefill_token_s * prompt
                work_s *= exp(self.random.gauss(0.0, noise))
                output = max(2, int(phase.output_tokens * self.random.uniform(0.7, 1.3)))
                yield Request(at_s, prompt, output, work_s)

    def _enter(self, request: Request) -> None:
        bucket = sum(1 for edge in EDGES if request.prompt > edge)
        second = self.arrivals.setdefault(int(request.at_s), {})
        row = second.setdefault(bucket, [0, 0])
        row[0] += 1
        row[1] += request.prompt
        self.queue.append(request)

    def _step(self) -> None:
        prefill, decode = self.ready(Role.PREFILL), self.ready(Role.DECODE)
        self.gpu_s += STEP_S * len(self.pods)
        while self.queue and prefill:
            pod = min(prefill, key=lambda p: len(p.jobs))
            if len(pod.jobs) >= self.engine.prefill_per_pod:
                break
            request = self.queue.popleft()
            request.sent_s, request.left_s = self.now_s, request.work_s
            pod.jobs.append(request)
        for pod in self.pods:
            if pod.role is Role.PREFILL:
                self._step_prefill(pod, decode)
            else:
                self._step_decode(pod)
        self.pods = [p for p in self.pods if not (p.leaving and not p.jobs and not p.waiting)]

    def _step_prefill(self, pod: Pod, decode: list[Pod]) -> None:
        if not pod.jobs:
            return
        pod.busy_s += STEP_S
        share = STEP_S / len(pod.jobs)
        for request in list(pod.jobs):
            request.left_s -= share
            if request.left_s <= 0.0 and decode:
                pod.jobs.remove(request)
                pod.requests += 1
                pod.prompt_tokens += request.prompt
                pod.contexts += request.prompt * request.prompt / 2
                request.prefilled_s = self.now_s
                target = min(decode, key=lambda p: len(p.jobs) + len(p.waiting))
                target.waiting.append(request)

    def _step_decode(self, pod: Pod) -> None:
        engine = self.engine
        held = sum(r.prompt + r.tokens for r in pod.jobs)
        while pod.waiting and len(pod.jobs) < engine.max_num_seqs:
            request = pod.waiting[0]
            if self.now_s < request.prefilled_s + engine.transfer_s:
                break
            need = request.prompt + request.output
            if pod.jobs and held + need > engine.kv_capacity_tokens:
                break
            held += need
            pod.waiting.popleft()
            request.first_s = self.now_s
            request.tokens = 1.0
            pod.jobs.append(request)
        if not pod.jobs:
            return
        itl_s = (engine.step_s + engine.step_slope_s * len(pod.jobs)) * exp(
            self.random.gauss(0.0, engine.noise)
        )
        made = STEP_S / itl_s
        pod.itl_sum_s += STEP_S * len(pod.jobs)
        pod.itl_count += made * len(pod.jobs)
        for request in list(pod.jobs):
            request.tokens += made
            if request.tokens >= request.output:
                pod.jobs.remove(request)
                request.end_s = self.now_s
                self.done.append(request)
                self.finished.setdefault(int(self.now_s), []).append(request)

    def _late(self, request: Request) -> tuple[bool, bool]:
        assert request.first_s is not None
        ttft_s = request.first_s + self.engine.step_s - request.at_s
        tpot_s = (request.end_s - request.first_s) / (request.output - 1)
        return ttft_s > self.spec.slo.ttft_bound_s(request.prompt), tpot_s > self.spec.slo.tpot_s

    def _blame(self, request: Request) -> str | None:
        late_ttft, late_tpot = self._late(request)
        if late_ttft:
            assert request.first_s is not None
            leg_s = request.prefilled_s - request.sent_s
            parts = {
                "router_queue": request.sent_s - request.at_s,
                "prefill": min(leg_s, request.work_s),
                "engine_queue": max(0.0, leg_s - request.work_s),
                "decode_admission": request.first_s - request.prefilled_s,
            }
            return max(parts, key=lambda name: parts[name])
        return "decode_step" if late_tpot else None

    def observe(self) -> Observation:
        pods, samples, legs = [], [], []
        for pod in self.pods:
            phase = PodPhase.READY if pod.ready_s <= self.now_s else PodPhase.STARTING
            if pod.leaving:
                phase = PodPhase.TERMINATING
            ready_s = pod.ready_s if phase is PodPhase.READY else None
            pods.append(PodState(pod.name, pod.role, "r1", phase, pod.created_s, ready_s))
            if phase is PodPhase.READY:
                samples.append(self._sample(pod))
            legs.append(
                Leg(
                    pod.name,
                    pod.role,
                    pod.busy_s,
                    pod.requests,
                    pod.prompt_tokens,
                    0,
                    pod.contexts,
                    0,
                )
            )
        report = RouterReport(
            router="router-1",
            sampled_s=self.now_s,
            started_s=self.started_s,
            bucket_edges_tokens=EDGES,
            arrivals=tuple(self._arrival_rows()),
            finished=tuple(self._finished_rows()),
            queued_requests=len(self.queue),
            queued_prompt_tokens=sum(r.prompt for r in self.queue),
            prefill_requests=sum(len(p.jobs) for p in self.pods if p.role is Role.PREFILL),
            decode_requests=sum(
                len(p.jobs) + len(p.waiting) for p in self.pods if p.role is Role.DECODE
            ),
            legs=tuple(legs),
        )
        return Observation(
            replicas=dict(self.replicas),
            pods=tuple(pods),
            engines=tuple(samples),
            routers=(report,),
            router_pods=1,
            latency=self._latency(),
        )

    def _sample(self, pod: Pod) -> EngineSample:
        decode = pod.role is Role.DECODE
        capacity = self.engine.kv_capacity_tokens
        held = sum(r.prompt + r.tokens for r in pod.jobs)
        return EngineSample(
            pod=pod.name,
            role=pod.role,
            sampled_s=self.now_s,
            running=float(len(pod.jobs)),
            waiting=float(len(pod.waiting)),
            kv_usage_ratio=held / capacity if decode else 0.0,
            kv_capacity_tokens=capacity,
            itl_sum_s=pod.itl_sum_s if decode else None,
            itl_count=pod.itl_count if decode else None,
            transfer_sum_s=self.engine.transfer_s * 10 if decode else None,
            transfer_count=10.0 if decode else None,
        )

    def _arrival_rows(self) -> Iterator[ArrivalSecond]:
        for second in sorted(self.arrivals):
            if second < self.now_s - 1200:
                del self.arrivals[second]
                continue
            row = self.arrivals[second]
            counts = tuple(row.get(b, (0, 0))[0] for b in range(len(EDGES) + 1))
            tokens = tuple(row.get(b, (0, 0))[1] for b in range(len(EDGES) + 1))
            yield ArrivalSecond(second, counts, tokens, 0)

    def _finished_rows(self) -> Iterator[FinishedSecond]:
        for second, requests in sorted(self.finished.items()):
            if second < self.now_s - 1200:
                continue
            late = [self._late(r) for r in requests]
            blame: dict[str, int] = {}
            for request in requests:
                cause = self._blame(request)
                if cause is not None:
                    blame[cause] = blame.get(cause, 0) + 1
            yield FinishedSecond(
                second=second,
                finished=len(requests),
                good=sum(1 for a, b in late if not a and not b),
                late_ttft=sum(1 for a, _ in late if a),
                late_tpot=sum(1 for _, b in late if b),
                failed=0,
                shed=0,
                gone=0,
                output_tokens=sum(r.output for r in requests),
                output_tokens_squared=sum(r.output**2 for r in requests),
                blame=blame,
            )

    def _latency(self) -> Latency:
        recent = [
            r
            for s in range(int(self.now_s) - 60, int(self.now_s) + 1)
            for r in self.finished.get(s, [])
        ]
        ttft = _quantiles([r.first_s - r.at_s for r in recent if r.first_s is not None])
        tpot = _quantiles(
            [(r.end_s - r.first_s) / (r.output - 1) for r in recent if r.first_s is not None]
        )
        return Latency(sampled_s=self.now_s, ttft=ttft, tpot=tpot)

    def tick(self, change: Callable[[Observation], Observation] = lambda o: o) -> Decision:
        """Observe, decide, and carry the decision out."""
        decision, self.memory = decide(self.spec, change(self.observe()), self.memory, self.now_s)
        self.decisions.append(decision)
        for role, plan in decision.roles.items():
            self._scale(role, plan.to)
        return decision

    def _scale(self, role: Role, to: int) -> None:
        self.replicas[role] = to
        alive = [p for p in self.pods if p.role is role and not p.leaving]
        for _ in range(to - len(alive)):
            self._add_pod(role)
        emptiest = sorted(alive, key=lambda p: (p.ready_s <= self.now_s, len(p.jobs), p.name))
        for pod in emptiest[: max(0, len(alive) - to)]:
            pod.leaving = True
            if pod.ready_s > self.now_s:
                self.pods.remove(pod)


def _with_tpot(spec: PoolSpec, tpot_s: float) -> PoolSpec:
    return replace(spec, slo=replace(spec.slo, tpot_s=tpot_s))


def _quantiles(values: list[float]) -> Quantiles:
    if not values:
        return Quantiles()
    ordered = sorted(values)
    at = [ordered[min(len(ordered) - 1, int(q * len(ordered)))] for q in (0.5, 0.95, 0.99)]
    return Quantiles(*at)
