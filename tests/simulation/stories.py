"""Loads told in phases, played through a simulated pool with the live core in the loop."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tandem_operator.core.decision import Decision
from tandem_operator.core.forecast.backtest import Track
from tandem_operator.core.memory import Memory
from tandem_operator.core.role import Role
from tandem_operator.core.slo import Slo
from tandem_operator.core.spec import PoolSpec
from tandem_operator.sim.cluster.pods import ColdStart
from tandem_operator.sim.engines.profile import EngineProfile, straight_profile
from tandem_operator.sim.flight import SimulatedFlight, judge
from tandem_operator.sim.policy import EPOCH_S, Tandem
from tandem_operator.sim.pool import PoolSetup
from tandem_operator.sim.report import PoolReport
from tandem_operator.sim.simulate import Scenario, Simulation
from tandem_operator.sim.traces.generate import Lengths, Mix, constant, poisson
from tandem_operator.sim.traces.trace import Trace, TraceRequest, in_order, joined, of_tenant

# A small engine on a busy machine: slow, and uneven.
ENGINE = replace(
    straight_profile(
        "small",
        prefill=(0.04, 2e-4),
        step=(0.0147, 0.0009, 0.0),
        kv_capacity_tokens=200_000,
        max_num_seqs=64,
    ),
    transfer_s=0.03,
    transfer_s_per_token=0.0,
    jitter=0.15,
)
# A quick and even one, and requests of a chat.
QUICK = straight_profile(
    "quick",
    prefill=(0.01, 4e-5),
    step=(0.008, 4e-4, 0.0),
    kv_capacity_tokens=400_000,
    max_num_seqs=64,
)
CHAT = Mix(Lengths(1500, 0.4, 16, 8000), Lengths(100, 0.4, 2, 400))
ONE_EACH = dict.fromkeys(Role, 1)


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
class PhaseResult:
    """The results of one phase, role by role."""

    begin_s: float
    finished: int
    good: int
    start: dict[Role, int]
    most: dict[Role, int]
    end: dict[Role, int]
    decisions: list[Decision] = field(default_factory=list)

    @property
    def attainment(self) -> float:
        return self.good / self.finished if self.finished else 1.0

    @property
    def changes(self) -> list[str]:
        return [
            f"{d.at_s - EPOCH_S:.0f} s: {plan.sentence}"
            for d in self.decisions
            for plan in d.roles.values()
            if plan.to != plan.current
        ]

    def grew(self, role: Role) -> bool:
        return self.most[role] > self.start[role]


def told(phases: list[Phase], *, seed: int) -> Trace:
    """Return the phases as one trace."""
    requests: list[TraceRequest] = []
    begin_s = 0.0
    for index, phase in enumerate(phases):
        if phase.rate_rps > 0.0:
            mix = Mix(Lengths(phase.prompt_tokens, 0.12), Lengths(phase.output_tokens, 0.18))
            rate = phase.rate_rps / phase.burst
            made = poisson(
                phase.name,
                constant(rate),
                most_rps=rate,
                span_s=phase.seconds,
                mix=mix,
                seed=100 * seed + index,
            )
            requests += [
                replace(r, at_s=r.at_s + begin_s) for r in made.requests for _ in range(phase.burst)
            ]
        begin_s += phase.seconds
    return Trace("story", in_order(requests))


def long_known() -> Tandem:
    """Return the core of a pool whose traffic is no news: it keeps no room for surprises."""
    return Tandem(Memory(track=Track(since_s=0.0)))


def play(
    spec: PoolSpec,
    phases: list[Phase],
    *,
    seed: int = 1,
    engine: EngineProfile = ENGINE,
    policy: Tandem | None = None,
    starts: ColdStart | None = None,
) -> dict[str, PhaseResult]:
    """Return the results of each phase."""
    policy = long_known() if policy is None else policy
    setup = PoolSetup(
        name="pool", spec=spec, trace=told(phases, seed=seed), profile=engine, start=ONE_EACH
    )
    scenario = Scenario(
        pools=(setup,),
        cold_start=ColdStart(75.0, 0.2) if starts is None else starts,
        seed=seed,
        least_s=sum(phase.seconds for phase in phases),
    )
    run = Simulation(scenario, {"pool": policy})
    begin_s = 0.0
    for phase in phases:
        if phase.tpot_s is not None:
            slo = replace(spec.slo, tpot_s=phase.tpot_s)
            run.edit("pool", replace(spec, slo=slo), at_s=begin_s)
        begin_s += phase.seconds
    report = run.run()["pool"]
    return _by_phase(phases, report, policy.decisions)


def _by_phase(
    phases: list[Phase], report: PoolReport, decisions: list[Decision]
) -> dict[str, PhaseResult]:
    results = {}
    begin_s, asked = 0.0, dict(ONE_EACH)
    for phase in phases:
        end_s = begin_s + phase.seconds
        moments = [m for m in report.moments if begin_s < m.at_s <= end_s]
        ended = [(m.finished, m.good) for m in moments]
        results[phase.name] = PhaseResult(
            begin_s=begin_s,
            finished=ended[-1][0] - ended[0][0] if ended else 0,
            good=ended[-1][1] - ended[0][1] if ended else 0,
            start=asked,
            most={r: max([asked[r], *(m.asked[r] for m in moments)]) for r in Role},
            end=dict(moments[-1].asked) if moments else asked,
            decisions=[d for d in decisions if begin_s < d.at_s - EPOCH_S <= end_s],
        )
        asked = results[phase.name].end
        begin_s = end_s
    return results


def attainment(
    ended: Iterable[SimulatedFlight], begin_s: float, end_s: float, *, slo: Slo
) -> float:
    """Return the good share of the requests that came in a time, whenever they ended."""
    came = [judge(each, slo).good for each in ended if begin_s <= each.request.at_s < end_s]
    return sum(came) / len(came)


def by_tenant(rates_rps: Mapping[str, float], *, span_s: float, mix: Mix) -> Trace:
    """Return the requests of tenants, each with its own even rate and draws."""
    return joined(
        "tenants",
        [
            of_tenant(
                poisson(name, constant(rate), most_rps=rate, span_s=span_s, mix=mix, seed=number),
                name,
            )
            for number, (name, rate) in enumerate(rates_rps.items())
        ],
    )
