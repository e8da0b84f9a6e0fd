"""Combine learned models and arrivals into the demand of each role."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

from tandem_operator.core.learn.correction import Correction
from tandem_operator.core.learn.engine_models import EngineModels
from tandem_operator.core.learn.least_squares import dot
from tandem_operator.core.learn.output_lengths import Outputs
from tandem_operator.core.observation import EngineSample, Latency, RouterReport
from tandem_operator.core.observe.arrivals import Arrivals, best_effort_queued
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.arrival_sample import Workload, workload
from tandem_operator.core.sizing.decode_lateness import DecodeWork, decode_work
from tandem_operator.core.sizing.prefill_lateness import Replay, in_one_queue, prefill_work
from tandem_operator.core.sizing.queueing import queue_late_share
from tandem_operator.core.sizing.replica_counts import LateShare, RoleDemand
from tandem_operator.core.slo import SloClass
from tandem_operator.core.spec import PoolSpec
from tandem_operator.core.tuning.tuning import TUNING, Tuning


@dataclass(frozen=True, slots=True)
class Work:
    """Cost and lateness of present requests.

    Attributes:
        busy: by role, replicas that one request per second keeps busy.
        late_share: by role, the late share of steady traffic, by rate and replicas.
        mean_tokens: prompt tokens of a request, and output tokens.
        dispersion: variance of the arrivals over that of a Poisson process.
    """

    busy: Mapping[Role, float]
    late_share: Mapping[Role, LateShare]
    mean_tokens: Mapping[Role, float]
    dispersion: float


@dataclass(frozen=True, slots=True)
class Situation:
    """The pool's work and its SLO, ready for sizing."""

    sample: Workload
    models: EngineModels
    replay: Replay
    decode: DecodeWork
    demands: Mapping[Role, RoleDemand]
    tuning: Tuning = field(default=TUNING, compare=False, repr=False)

    def work(self, *, overflow: bool) -> Work:
        """Return cost and lateness of present requests, for a replay of the past."""
        prefill, decode_busy = self.replay.work, self.demands[Role.DECODE].busy
        usable = self.tuning.sizing.usable_slack_share

        def late_prefill(rate_rps: float, replicas: int) -> float:
            # The spare capacity of decode replicas that just serve the rate.
            load = rate_rps * decode_busy
            spare = usable * (ceil(load) - load) if overflow else 0.0
            return queue_late_share(
                rate_rps,
                replicas + spare,
                service_s=prefill.mean_service_s,
                cv2=prefill.service_cv2,
                patience_s=prefill.patience_s,
            )

        return Work(
            busy=self.busy,
            late_share={
                Role.PREFILL: late_prefill,
                Role.DECODE: self.demands[Role.DECODE].late_share,
            },
            mean_tokens=self.mean_tokens,
            dispersion=self.sample.dispersion,
        )

    @property
    def mean_tokens(self) -> dict[Role, float]:
        """Return the tokens of a request that each role works on: its prompt, or its answer."""
        return {
            Role.PREFILL: self.sample.mean_prompt_tokens,
            Role.DECODE: self.decode.outputs.mean_tokens,
        }

    @property
    def busy(self) -> dict[Role, float]:
        """Return the replicas that one request per second keeps busy, by role."""
        return {role: demand.busy for role, demand in self.demands.items()}

    @property
    def feasible(self) -> bool:
        """Return whether some number of replicas can keep the SLO."""
        return all(self.reachable(role) for role in Role)

    def reachable(self, role: Role) -> bool:
        """Return whether some number of replicas of `role` keeps its bound of the SLO."""
        return (self.replay.work if role is Role.PREFILL else self.decode).feasible

    @property
    def good_share(self) -> float:
        """Return the share of requests that could be good with some number of replicas."""
        return 1.0 - self.replay.work.infeasible_share if self.decode.feasible else 0.0

    def late_share(self, role: Role, rate_rps: float, replicas: int) -> float:
        """Return the late share of `role`; all requests without a replica."""
        return self.demands[role].late_share(rate_rps, replicas) if replicas > 0 else 1.0

    def violated_share(self, role: Role, rate_rps: float, replicas: int) -> float:
        """Return the late share, plus requests that no replica helps: the violations to expect."""
        late = self.late_share(role, rate_rps, replicas)
        hopeless = self.replay.work.infeasible_share if role is Role.PREFILL else 0.0
        return hopeless + (1.0 - hopeless) * late


def transfer_s(samples: Sequence[EngineSample]) -> float:
    """Return the mean KV transfer time since the engines started; 0 if none was measured."""
    total = sum(s.transfer_sum_s or 0.0 for s in samples if s.role is Role.DECODE)
    count = sum(s.transfer_count or 0.0 for s in samples if s.role is Role.DECODE)
    return total / count if count > 0.0 else 0.0


@dataclass(frozen=True, slots=True)
class Backlog:
    """Prompt tokens that wait in routers, by the role that holds them back.

    Attributes:
        clear_s: the time in which they should be served.
    """

    tokens: Mapping[Role, float]
    clear_s: float

    def replicas(self, role: Role, *, busy_s_per_token: float) -> float:
        """Return the replicas that the backlog keeps busy for that time."""
        return self.tokens[role] * busy_s_per_token / max(1.0, self.clear_s)


def backlog_of(reports: Sequence[RouterReport], *, clear_s: float) -> Backlog:
    """Return the present backlog; prefill replicas cannot serve the part that decode holds back."""
    held = sum(report.held_prompt_tokens for report in reports)
    queued = sum(report.queued_prompt_tokens for report in reports)
    return Backlog({Role.PREFILL: max(0, queued - held), Role.DECODE: held}, clear_s)


def waiting_replicas(
    reports: Sequence[RouterReport],
    situation: "Situation | None",
    *,
    classes: Sequence[SloClass],
    clear_s: Mapping[Role, float],
) -> dict[Role, int]:
    """Return the replicas that serve the waiting requests in `clear_s`; 1 if not known.

    Best effort gets no replica of its own. It gets the replicas that others need, or one of each
    role.
    """
    if situation is None:
        return dict.fromkeys(Role, 1)
    prompts = sum(report.queued_prompt_tokens for report in reports)
    queued = sum(report.queued_requests for report in reports)
    requests = {
        Role.PREFILL: prompts / max(1.0, situation.sample.mean_prompt_tokens),
        Role.DECODE: float(queued - best_effort_queued(classes, reports)),
    }
    return {
        role: max(1, ceil(requests[role] * situation.busy[role] / max(1.0, clear_s[role])))
        for role in Role
    }


def assess(
    spec: PoolSpec,
    arrivals: Arrivals,
    *,
    models: EngineModels,
    outputs: Outputs | None,
    correction: Correction,
    overhead_s: float,
    backlog: Backlog,
    caches_moving: bool = False,
    tuning: Tuning = TUNING,
) -> Situation | None:
    """Return the situation, or `None` while a value that sizing needs is unknown."""
    sample = workload(arrivals, caches_moving=caches_moving, tuning=tuning)
    if sample is None or outputs is None or not models.service.known or not models.step.known:
        return None
    service = models.service.coefficients(tuning=tuning)
    work = prefill_work(
        sample,
        service=service,
        slowdown=correction.of(Role.PREFILL),
        overhead_s=overhead_s,
        slo=spec.slo,
        tuning=tuning,
    )
    decode = decode_work(
        steps=models.step.coefficients(tuning=tuning),
        slowdown=correction.of(Role.DECODE),
        prompt_tokens=sample.mean_prompt_tokens,
        outputs=outputs,
        dispersion=sample.dispersion,
        tpot_s=spec.slo.tpot_s,
        kv_capacity_tokens=models.kv_capacity_tokens,
        max_num_seqs=spec.max_num_seqs,
        tuning=tuning,
    )
    replay = Replay(work, tuning=tuning)
    # More replicas are an expensive cure for waits beside idle ones: the objective requires them,
    # the price does not.
    one_queue = in_one_queue(replay)
    busy = {
        Role.PREFILL: work.mean_service_s,
        Role.DECODE: decode.load(1.0),
    }
    waiting = {
        role: backlog.replicas(
            role, busy_s_per_token=busy[role] / max(1.0, sample.mean_prompt_tokens)
        )
        for role in Role
    }
    demands = {
        Role.PREFILL: RoleDemand(
            late_share=replay.late_share,
            priced_share=one_queue.late_share,
            busy=busy[Role.PREFILL],
            backlog=waiting[Role.PREFILL],
            reachable_share=1.0 if work.feasible else 1.0 - work.infeasible_share,
            tuning=tuning,
        ),
        Role.DECODE: RoleDemand(
            late_share=decode.late_share,
            busy=busy[Role.DECODE],
            backlog=waiting[Role.DECODE],
            price_weight=tuning.sizing.decode_price_share,
            tuning=tuning,
        ),
    }
    return Situation(
        sample=sample, models=models, replay=replay, decode=decode, demands=demands, tuning=tuning
    )


def first_overhead_s(
    models: EngineModels, samples: Sequence[EngineSample], *, tuning: Tuning = TUNING
) -> float:
    """Return the assumed part of TTFT besides prefill: transfer and one decode step."""
    step_s = 0.0
    if models.step.known:
        step_s = dot(models.step.coefficients(tuning=tuning), (1.0, 1.0, 0.0))
    return transfer_s(samples) + step_s


def learn_overhead(
    overhead_s: float,
    situation: Situation,
    latency: Latency | None,
    *,
    rate_rps: float,
    ready: Mapping[Role, int],
    settled: bool,
    slo_ttft_s: float,
    tuning: Tuning = TUNING,
) -> float:
    """Return the overhead after a look at the median TTFT, which is valid only without queues."""
    sizing = tuning.sizing
    calm = settled and all(
        ready[role] > 0
        and rate_rps * situation.demands[role].busy < sizing.calm_load_ratio * ready[role]
        and situation.late_share(role, rate_rps, ready[role]) < sizing.calm_late_share
        for role in Role
    )
    if not calm or latency is None or latency.ttft.p50_s is None:
        return overhead_s
    surplus_s = latency.ttft.p50_s - situation.replay.work.unloaded_ttft_s(0.5)
    most_s = sizing.most_overhead_step_share * slo_ttft_s
    moved = overhead_s + min(most_s, max(-most_s, sizing.overhead_step_share * surplus_s))
    return min(sizing.most_overhead_share * slo_ttft_s, max(0.0, moved))
