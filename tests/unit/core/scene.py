"""Builders of plain inputs for the core's tests: a pool at rest or under even load."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tandem_operator.core.observation import (
    ArrivalSecond,
    EngineSample,
    FinishedSecond,
    Leg,
    Observation,
    PodPhase,
    PodState,
    RouterReport,
)
from tandem_operator.core.role import Role
from tandem_operator.core.slo import Slo
from tandem_operator.core.spec import Insurance, Mode, PoolSpec, RoleSpec

NOW_S = 1_790_000_000.0
EDGES = (128, 512, 2048)


def make_spec(
    *,
    ttft_s: float = 1.0,
    per_thousand_s: float = 0.0,
    tpot_s: float = 0.03,
    attainment: float = 0.95,
    low: int = 1,
    high: int = 8,
    managed: Mapping[Role, bool] | None = None,
    mode: Mode = Mode.AUTO,
    gpu_budget: int | None = None,
    stabilization_s: float = 60.0,
    max_step: int | None = None,
    max_num_seqs: int = 64,
) -> PoolSpec:
    owned = dict.fromkeys(Role, True) | dict(managed or {})
    return PoolSpec(
        slo=Slo(ttft_s, per_thousand_s, tpot_s, attainment),
        roles={role: RoleSpec(low, high, 1, owned[role]) for role in Role},
        mode=mode,
        gpu_budget=gpu_budget,
        stabilization_s=stabilization_s,
        max_step=max_step,
        max_model_len=4096,
        max_num_seqs=max_num_seqs,
        insurance=Insurance(decode_gate=True, overflow=True),
    )


def pods(
    role: Role, count: int, *, phase: PodPhase = PodPhase.READY, **more: object
) -> tuple[PodState, ...]:
    ready_s = NOW_S - 540.0 if phase is PodPhase.READY else None
    made = [
        PodState(
            f"{role.value}-{phase.value.lower()}-{i}", role, "r1", phase, NOW_S - 600.0, ready_s
        )
        for i in range(count)
    ]
    return tuple(replace(pod, **more) for pod in made)  # type: ignore[arg-type]


def sample(pod: PodState, now_s: float = NOW_S, **more: object) -> EngineSample:
    made = EngineSample(pod=pod.name, role=pod.role, sampled_s=now_s, running=0.0, waiting=0.0)
    return replace(made, **more)  # type: ignore[arg-type]


def arrival(second: float, requests: int, prompt_tokens: int = 100) -> ArrivalSecond:
    bucket = sum(1 for edge in EDGES if prompt_tokens > edge)
    counts = tuple(requests if b == bucket else 0 for b in range(len(EDGES) + 1))
    return ArrivalSecond(int(second), counts, tuple(c * prompt_tokens for c in counts), 0)


def ended(second: float, count: int, *, good: int | None = None, **more: object) -> FinishedSecond:
    made = FinishedSecond(
        second=int(second),
        finished=count,
        good=count if good is None else good,
        late_ttft=0,
        late_tpot=0,
        failed=0,
        shed=0,
        gone=0,
        output_tokens=50 * count,
        output_tokens_squared=2600 * count,
    )
    return replace(made, **more)  # type: ignore[arg-type]


def leg(pod: str, role: Role = Role.PREFILL, **more: object) -> Leg:
    made = Leg(pod, role, 0.0, 0, 0, 0, 0.0, 0)
    return replace(made, **more)  # type: ignore[arg-type]


def report(
    *,
    now_s: float = NOW_S,
    started_s: float = NOW_S - 600.0,
    arrivals: Sequence[ArrivalSecond] = (),
    finished: Sequence[FinishedSecond] = (),
    legs: Sequence[Leg] = (),
    router: str = "router-1",
    **more: object,
) -> RouterReport:
    made = RouterReport(
        router=router,
        sampled_s=now_s,
        started_s=started_s,
        bucket_edges_tokens=EDGES,
        arrivals=tuple(arrivals),
        finished=tuple(finished),
        queued_requests=0,
        queued_prompt_tokens=0,
        prefill_requests=0,
        decode_requests=0,
        legs=tuple(legs),
    )
    return replace(made, **more)  # type: ignore[arg-type]


def observe(
    *,
    prefill: int = 1,
    decode: int = 1,
    now_s: float = NOW_S,
    extra_pods: Sequence[PodState] = (),
    routers: Sequence[RouterReport] | None = None,
    **more: object,
) -> Observation:
    ready = pods(Role.PREFILL, prefill) + pods(Role.DECODE, decode)
    made = Observation(
        replicas={Role.PREFILL: prefill, Role.DECODE: decode},
        pods=ready + tuple(extra_pods),
        engines=tuple(sample(pod, now_s) for pod in ready),
        routers=(report(now_s=now_s),) if routers is None else tuple(routers),
        router_pods=1,
    )
    return replace(made, **more)  # type: ignore[arg-type]
