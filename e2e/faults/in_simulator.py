"""Plays in the discrete-event simulator, with the live decision core in the loop.

A pool here is whole while at least nine of ten of the requests that came in the half minute
before were answered inside their bounds: pods come and go with the load.
"""

import functools
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from e2e.faults.evidence import Evidence, Fate, Moment, Play, Request, Said, Stage
from tandem_operator.core.decision import Decision
from tandem_operator.core.forecast.backtest import Track
from tandem_operator.core.memory import Memory
from tandem_operator.core.observation import Observation
from tandem_operator.core.role import Role
from tandem_operator.core.slo import Slo
from tandem_operator.core.spec import Insurance, Mode, PoolSpec, RoleSpec
from tandem_operator.sim.cluster.faults import CapacityBlocked, Fault, SlowStarts
from tandem_operator.sim.cluster.pods import ColdStart
from tandem_operator.sim.engines.profile import straight_profile
from tandem_operator.sim.flight import SimulatedFlight, judge
from tandem_operator.sim.policy import EPOCH_S, PolicyAnswer, Tandem
from tandem_operator.sim.pool import PoolSetup
from tandem_operator.sim.report import PoolReport
from tandem_operator.sim.simulate import Scenario, Simulation
from tandem_operator.sim.traces.generate import Lengths, Mix, Rate, constant, poisson
from tandem_operator.sim.traces.trace import Trace
from tandem_routing.verdict import Ending

GOOD_SHARE = 0.9
WINDOW_S = 30.0
FOLLOWED_WITHIN_S = 15.0
"""The time after an edit within which no more is wanted than it allows."""
HIGHEST_RPS = 80.0
ENGINE = straight_profile(
    "quick",
    prefill=(0.01, 4e-5),
    step=(0.008, 4e-4, 0.0),
    kv_capacity_tokens=400_000,
    max_num_seqs=64,
)
CHAT = Mix(Lengths(1500, 0.4, 16, 8000), Lengths(100, 0.4, 2, 400))
STARTS = ColdStart(40.0, 0.1)
SPEC = PoolSpec(
    slo=Slo(0.8, 0.0, 0.02, 0.95),
    roles=dict.fromkeys(Role, RoleSpec(1, 12, 1, True)),
    mode=Mode.AUTO,
    gpu_budget=16,
    stabilization_s=10.0,
    max_step=None,
    max_model_len=32_768,
    max_num_seqs=64,
    insurance=Insurance(decode_gate=True, overflow=True),
)
TWO_EACH = dict.fromkeys(Role, 2)
Distort = Callable[[Observation, float], Observation]


@dataclass(frozen=True, slots=True)
class Simulated:
    """A simulated pool, its load, and its faults. Times are seconds of the simulation.

    Attributes:
        faults: the faults of its cluster, drawn for a seed.
        distort: the observation in place of the truth while the fault lasts.
        edited: the spec from the fault on.
        until_s: the end of the fault; `fault_s` where it is a blow.
    """

    fault_s: float = 200.0
    until_s: float = 200.0
    span_s: float = 500.0
    rate: Rate = field(default_factory=lambda: constant(8.0))
    faults: Callable[[Random], tuple[Fault, ...]] = lambda _: ()
    distort: Distort | None = None
    edited: PoolSpec | None = None
    spec: PoolSpec = SPEC
    start: Mapping[Role, int] = field(default_factory=lambda: TWO_EACH)


class Distorted(Tandem):
    """The live core of a pool whose traffic is no news; for a while it is told something else."""

    def __init__(self, distort: Distort | None, *, from_s: float, until_s: float) -> None:
        super().__init__(Memory(track=Track(since_s=0.0)))
        self._distort, self._from_s, self._until_s = distort, from_s, until_s

    def tick(self, spec: PoolSpec, observation: Observation, now_s: float) -> PolicyAnswer:
        """Run one tick of the core, on what it is told."""
        if self._distort is not None and self._from_s <= now_s - EPOCH_S < self._until_s:
            observation = self._distort(observation, now_s)
        return super().tick(spec, observation, now_s)


def in_simulator(simulated: Simulated) -> Play:
    """Return the play of a simulated pool."""
    return functools.partial(play, simulated)


def play(simulated: Simulated, stage: Stage) -> Evidence:
    """Simulate until every request has ended, and say what was seen."""
    faults = simulated.faults(stage.random("faults"))
    trace = poisson(
        "load",
        simulated.rate,
        most_rps=HIGHEST_RPS,
        span_s=simulated.span_s,
        mix=CHAT,
        seed=stage.seed,
    )
    policy = Distorted(simulated.distort, from_s=simulated.fault_s, until_s=simulated.until_s)
    run = Simulation(_scenario(simulated, trace, faults, seed=stage.seed), {"pool": policy})
    if simulated.edited is not None:
        run.edit("pool", simulated.edited, at_s=simulated.fault_s)
    report = run.run()["pool"]
    ended = run.pool("pool").ended
    slo = simulated.spec.slo
    return Evidence(
        requests=tuple(_requests(ended, report)),
        moments=tuple(_moments(report, policy.decisions, ended, slo)),
        said=tuple(_said(policy.decisions)),
        fault_s=simulated.fault_s,
        # A pod that is taken back may be lost as late as its notice ends.
        dealt_s=simulated.until_s,
        undone_s=simulated.until_s,
        budget=_budget(simulated),
        broken=tuple(_broken(simulated, report, run.cluster.most_held)),
    )


def _scenario(
    simulated: Simulated, trace: Trace, faults: tuple[Fault, ...], *, seed: int
) -> Scenario:
    setup = PoolSetup(
        name="pool",
        spec=simulated.spec,
        trace=trace,
        profile=ENGINE,
        start=simulated.start,
        faults=faults,
    )
    cluster = tuple(f for f in faults if isinstance(f, CapacityBlocked | SlowStarts))
    return Scenario(
        pools=(setup,), cold_start=STARTS, faults=cluster, seed=seed, least_s=simulated.span_s
    )


def _budget(simulated: Simulated) -> int | None:
    """Return the budget that holds for the whole run; a cut one is checked by `_broken`."""
    return simulated.spec.gpu_budget


def _broken(simulated: Simulated, report: PoolReport, most_held: int) -> Iterator[str]:
    """Yield a budget that was exceeded between two looks, or a cut that was not followed."""
    budget = simulated.spec.gpu_budget
    if budget is not None and most_held > budget:
        yield f"{most_held} GPUs were held for a moment with a budget of {budget}"
    edited = simulated.edited
    if edited is None or edited.gpu_budget is None:
        return
    for moment in report.moments:
        asked = sum(moment.asked[role] * edited.roles[role].gpus_per_replica for role in Role)
        if moment.at_s > simulated.fault_s + FOLLOWED_WITHIN_S and asked > edited.gpu_budget:
            yield f"{asked} GPUs were asked for with a budget cut to {edited.gpu_budget}"
            return


def _requests(ended: Sequence[SimulatedFlight], report: PoolReport) -> Iterator[Request]:
    for flight in ended:
        yield Request(
            name=f"request {flight.number}",
            sent_s=flight.request.at_s,
            ended_s=report.end_s if flight.end_s is None else flight.end_s,
            fate=_FATES[flight.ending or Ending.ANSWERED],
            began=flight.first_s is not None,
            why=None if flight.ending is Ending.ANSWERED else str(flight.ending),
        )
    for number in range(report.unfinished):
        yield Request(
            name=f"unfinished request {number}",
            sent_s=0.0,
            ended_s=report.end_s,
            fate=Fate.HUNG,
            why="still inside at the end",
        )


_FATES = {
    Ending.ANSWERED: Fate.FINISHED,
    Ending.FAILED: Fate.LOST,
    Ending.SHED: Fate.REFUSED,
    Ending.TOO_LATE: Fate.REFUSED,
}


def _moments(
    report: PoolReport, decisions: Sequence[Decision], ended: Sequence[SimulatedFlight], slo: Slo
) -> Iterator[Moment]:
    came = sorted((flight.request.at_s, judge(flight, slo).good) for flight in ended)
    times = [at_s for at_s, _ in came]
    for moment, decision in zip(report.moments, decisions, strict=False):
        first = bisect_left(times, moment.at_s - WINDOW_S)
        window = [good for _, good in came[first : bisect_left(times, moment.at_s)]]
        yield Moment(
            at_s=moment.at_s,
            asked=moment.asked,
            gpus=moment.gpus,
            blind=not decision.fresh,
            whole=not window or sum(window) >= GOOD_SHARE * len(window),
        )


def _said(decisions: Sequence[Decision]) -> Iterator[Said]:
    known: set[str] = set()
    for decision in decisions:
        texts = [f"decision: {decision.sentence}"]
        if not decision.fresh:
            texts.append(f"MetricsFresh=False: {decision.fresh_message}")
        if decision.capacity_blocked:
            texts.append(f"CapacityBlocked=True: {decision.capacity_blocked}")
        for text in texts:
            if text not in known:
                known.add(text)
                yield Said(decision.at_s - EPOCH_S, text)


def with_budget(gpus: int) -> PoolSpec:
    """Return the usual pool under another budget."""
    return replace(SPEC, gpu_budget=gpus)
