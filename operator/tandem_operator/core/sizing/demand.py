"""Put what was learned and what arrives together into each role's demand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

from tandem_operator.core.learn.correction import Correction
from tandem_operator.core.learn.engine_models import EngineModels
from tandem_operator.core.learn.least_squares import dot
from tandem_operator.core.learn.output_lengths import Outputs
from tandem_operator.core.observation import EngineSample, Latency, RouterReport
from tandem_operator.core.observe.arrivals import Arrivals
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.arrival_sample import Workload, workload
from tandem_operator.core.sizing.decode_lateness import DecodeWork, decode_work
from tandem_operator.core.sizing.prefill_lateness import Replay, in_one_queue, prefill_work
from tandem_operator.core.sizing.queueing import queue_late_share
from tandem_operator.core.sizing.replica_counts import LateShare, RoleDemand
from tandem_operator.core.spec import PoolSpec
from tandem_operator.core.tuning.tuning import TUNING, Tuning


@dataclass(frozen=True, slots=True)
class Work:
    """What requests of today cost and may wait.

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
    """The pool's work against its SLO, ready to be sized."""

    sample: Workload
    models: EngineModels
    replay: Replay
    decode: DecodeWork
    demands: Mapping[Role, RoleDemand]
    tuning: Tuning = field(default=TUNING, compare=False, repr=False)

    def work(self, *, overflow: bool) -> Work:
        """What requests of today cost and may wait, for a play of the past."""
        prefill, decode_busy = self.replay.work, self.demands[Role.DECODE].busy
        usable = self.tuning.sizing.usable_slack_share

        def late_prefill(rate_rps: float, replicas: int) -> float:
            # What decode replicas that just carry the rate have to spare.
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
        """By role, the tokens that it works on for a request: of the prompt, or of the answer."""
        return {
            Role.PREFILL: self.sample.mean_prompt_tokens,
            Role.DECODE: self.decode.outputs.mean_tokens,
        }

    @property
    def busy(self) -> dict[Role, float]:
        """By role, replicas that one request per second keeps busy."""
        return {role: demand.busy for role, demand in self.demands.items()}

    @property
    def feasible(self) -> bool:
        """Whether the SLO can be kept with any number of replicas."""
        return all(self.reachable(role) for role in Role)

    def reachable(self, role: Role) -> bool:
        """Whether some number of replicas of `role` keeps its bound of the SLO."""
        return (self.replay.work if role is Role.PREFILL else self.decode).feasible

    @property
    def good_share(self) -> float:
        """Share of the requests that could be good with any number of replicas."""
        return 1.0 - self.replay.work.infeasible_share if self.decode.feasible else 0.0

    def late_share(self, role: Role, rate_rps: float, replicas: int) -> float:
        """Share late for `role`; all of them where it has no replica at all."""
        return self.demands[role].late_share(rate_rps, replicas) if replicas > 0 else 1.0

    def violated_share(self, role: Role, rate_rps: float, replicas: int) -> float:
        """The same with those that no replica helps: what will be measured and blamed on `role`."""
        late = self.late_share(role, rate_rps, replicas)
        hopeless = self.replay.work.infeasible_share if role is Role.PREFILL else 0.0
        return hopeless + (1.0 - hopeless) * late


def transfer_s(samples: Sequence[EngineSample]) -> float:
    """Mean KV transfer time since the engines started; none measured: none counted."""
    total = sum(s.transfer_sum_s or 0.0 for s in samples if s.role is Role.DECODE)
    count = sum(s.transfer_count or 0.0 for s in samples if s.role is Role.DECODE)
    return total / count if count > 0.0 else 0.0


@dataclass(frozen=True, slots=True)
class Backlog:
    """Prompt tokens that wait in routers, by the role that holds them back.

    Attributes:
        clear_s: how long they may take to be served.
    """

    tokens: Mapping[Role, float]
    clear_s: float

    def replicas(self, role: Role, *, busy_s_per_token: float) -> float:
        """Replicas that it keeps busy for so long."""
        return self.tokens[role] * busy_s_per_token / max(1.0, self.clear_s)


def backlog_of(reports: Sequence[RouterReport], *, clear_s: float) -> Backlog:
    """What waits now; what decode replicas hold back, no prefill replica can clear."""
    held = sum(report.held_prompt_tokens for report in reports)
    queued = sum(report.queued_prompt_tokens for report in reports)
    return Backlog({Role.PREFILL: max(0, queued - held), Role.DECODE: held}, clear_s)


def assess(
    spec: PoolSpec,
    arrivals: Arrivals,
    *,
    models: EngineModels,
    outputs: Outputs | None,
    correction: Correction,
    overhead_s: float,
    backlog: Backlog,
    tuning: Tuning = TUNING,
) -> Situation | None:
    """The situation, or `None` while something that sizing needs is still unknown."""
    sample = workload(arrivals, tuning=tuning)
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
    # More replicas are a dear cure for waiting beside idle ones: the objective buys them, no price.
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
    """What TTFT holds besides prefill before it was measured: transfer and one decode step."""
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
    """The overhead after a look at the median TTFT, which tells only while nothing queues."""
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
