"""One pool's own spec on one traffic: the input of a simulation, and its first fleet."""

from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil

from tandem_operator.api import InferencePool, PrefillPodChoice, Router, duration_s
from tandem_operator.cli.command_errors import BadInputError
from tandem_operator.cli.input.oversize import Oversize, oversize_of
from tandem_operator.cli.input.simulated_tenants import rules_of, within_limits
from tandem_operator.cli.units import Fleet, fleet_name
from tandem_operator.core.role import Role
from tandem_operator.core.schedules import called
from tandem_operator.core.spec import Mode, PoolSpec
from tandem_operator.sim.cluster.pods import ColdStart
from tandem_operator.sim.engines.profile import EngineProfile
from tandem_operator.sim.policy import EPOCH_S
from tandem_operator.sim.routing.router_queue import QueueSettings, Spread
from tandem_operator.sim.traces.trace import Trace
from tandem_operator.workloads.pool_spec import insurance_of, policy_of

START_LOAD = 0.7
START_WINDOW_S = 60.0


@dataclass(frozen=True)
class Case:
    """A pool, its traffic and its engines: everything that a run depends on except the policy.

    Attributes:
        router: how the pool's router works.
        start: replicas that are ready at the start.
        gpu_hour_price: price of one GPU for one hour; `None`: not given.
        differs: differences between simulation and manifest, in sentences.
    """

    name: str
    spec: PoolSpec
    trace: Trace
    profile: EngineProfile
    cold_start: ColdStart
    start: Fleet
    router: QueueSettings
    prefix_caching: bool
    seed: int
    gpu_hour_price: float | None
    differs: tuple[str, ...] = ()

    def gpus(self, fleet: Fleet) -> int:
        """Return the GPUs of that fleet."""
        return gpus_of(self.spec, fleet)

    @cached_property
    def demand(self) -> Trace:
        """Return the traffic without the requests that limits of tenants refuse, about."""
        return within_limits(self.trace, self.router)

    @cached_property
    def oversize(self) -> Oversize | None:
        """Return the requests that no fleet can serve; the trace is searched only once."""
        return oversize_of(self.trace, self.spec, self.profile)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return facts that the figures alone do not show, in sentences."""
        oversize = self.oversize
        return self.differs if oversize is None else (*self.differs, oversize.note)


def gpus_of(spec: PoolSpec, fleet: Fleet) -> int:
    """Return the GPUs of a fleet."""
    return sum(count * spec.roles[role].gpus_per_replica for role, count in fleet.items())


def spec_of(pool: InferencePool) -> PoolSpec:
    """Return the pool's spec as if Tandem set both counts, whatever the mode is."""
    spec = policy_of(pool.spec)
    roles = {role: replace(bounds, managed=True) for role, bounds in spec.roles.items()}
    return replace(spec, mode=Mode.AUTO, roles=roles)


def at_begin(spec: PoolSpec) -> PoolSpec:
    """The spec with the minimums of schedules that are in force when simulated time begins."""
    none = dict.fromkeys(Role, 0)
    return called(spec, asked=none, lead_s=0.0, early_s=None, now_s=EPOCH_S).raised(spec)


def router_of(router: Router) -> QueueSettings:
    """A pool's router, as its spec has it."""
    insurance = insurance_of(router)
    by_prefix = router.prefill_placement is PrefillPodChoice.PREFIX
    return QueueSettings(
        spread=Spread.PREFIX if by_prefix else Spread.LEAST_LOADED,
        requests_per_prefill_pod=router.limits.prefill_requests_per_pod,
        tokens_per_prefill_pod=router.limits.prefill_tokens_per_pod,
        first_token_s=duration_s(router.timeouts.first_token),
        overflow=insurance.overflow,
        decode_gate=insurance.decode_gate,
        tenants=rules_of(router.tenants),
    )


def notes_on(pool: InferencePool) -> list[str]:
    """Return the differences between the simulation and the spec, in sentences."""
    spec = policy_of(pool.spec)
    notes = []
    if spec.mode is not Mode.AUTO:
        notes.append(f"scaling.mode is {spec.mode}; simulated as Auto.")
    notes += [
        f"{role}.management is External; simulated as Managed."
        for role, bounds in spec.roles.items()
        if not bounds.managed
    ]
    part = pool.spec.engine.gpu_part
    if part is not None:
        notes.append(f"Engines run on part of a GPU ({part}); profiles of whole GPUs do not hold.")
    return notes


def fitted_start(spec: PoolSpec, trace: Trace, profile: EngineProfile) -> Fleet:
    """Return the fleet that serves the first minute at a fair load, inside bounds and budget."""
    first = [r for r in trace.requests if r.at_s < START_WINDOW_S]
    window_s = min(START_WINDOW_S, max(1.0, trace.span_s))
    count = max(1, len(first))
    context = sum(r.prompt_tokens + r.output_tokens / 2 for r in first) / count
    batch = min(profile.largest_batch(spec.slo.tpot_s, context), spec.max_num_seqs)
    tokens_per_s = batch / profile.step_s(batch, batch * context)
    busy = {
        Role.PREFILL: sum(profile.service_s(r.prompt_tokens) for r in first) / window_s,
        Role.DECODE: sum(r.output_tokens for r in first) / window_s / tokens_per_s,
    }
    fleet = {
        role: min(
            max(ceil(busy[role] / START_LOAD), spec.roles[role].min_replicas, 1),
            spec.roles[role].max_replicas,
        )
        for role in Role
    }
    while gpus_of(spec, fleet) > (spec.gpu_budget or gpus_of(spec, fleet)):
        above = [role for role in Role if fleet[role] > max(1, spec.roles[role].min_replicas)]
        if not above:
            break
        fleet[max(above, key=lambda role: fleet[role] - busy[role])] -= 1
    return fleet


def smallest(spec: PoolSpec) -> Fleet:
    """Return the fleet of `minReplicas`, with at least one replica of each role."""
    return {role: max(1, bounds.min_replicas) for role, bounds in spec.roles.items()}


def check_fleet(option: str, fleet: Fleet, spec: PoolSpec) -> None:
    """Refuse a fleet outside the pool's bounds or budget.

    Raises:
        BadInputError: the fleet is outside; the sentence names the option and the bound.
    """
    for role, count in fleet.items():
        bounds = spec.roles[role]
        if not bounds.min_replicas <= count <= bounds.max_replicas:
            raise BadInputError(
                f"{option} {fleet_name(fleet)}: {role} must be from {bounds.min_replicas} to"
                f" {bounds.max_replicas}, as the pool's minReplicas and maxReplicas say"
            )
    if spec.gpu_budget is not None and gpus_of(spec, fleet) > spec.gpu_budget:
        raise BadInputError(
            f"{option} {fleet_name(fleet)} holds {gpus_of(spec, fleet)} GPUs, more than the pool's"
            f" gpuBudget of {spec.gpu_budget}"
        )
