"""A run of a case under a policy: its results and its cost."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tandem_operator.cli.input.case import Case
from tandem_operator.cli.units import Fleet
from tandem_operator.core.observation import Observation
from tandem_operator.core.role import Role
from tandem_operator.core.slo import Slo
from tandem_operator.core.spec import PoolSpec
from tandem_operator.sim.flight import SimulatedFlight, judge
from tandem_operator.sim.policy import EPOCH_S, Policy, PolicyAnswer, Tandem
from tandem_operator.sim.pool import PoolSetup
from tandem_operator.sim.report import PoolReport
from tandem_operator.sim.simulate import Scenario, Simulation

TOKENS_SHOWN = 1e6

OnProgress = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Change:
    """A count that a policy changed, with a sentence if the policy gives one."""

    at_s: float
    role: Role
    before: int
    after: int
    sentence: str


@dataclass(frozen=True, slots=True)
class Run:
    """The results of a case under one policy."""

    case: Case
    report: PoolReport
    flights: tuple[SimulatedFlight, ...]
    changes: tuple[Change, ...]

    @property
    def most_gpus(self) -> int:
        """Return the most GPUs held at any tick."""
        return max((m.gpus for m in self.report.moments), default=self.case.gpus(self.case.start))

    @property
    def mean_gpus(self) -> float:
        """Return the GPUs held on average, until the last request ended."""
        return self.report.gpu_hours * 3600.0 / max(1e-9, self.report.end_s)

    @property
    def hours_per_million_tokens(self) -> float | None:
        """Return the GPU-hours per million output tokens."""
        tokens = self.report.output_tokens
        return self.report.gpu_hours * TOKENS_SHOWN / tokens if tokens else None

    @property
    def cost_per_million_tokens(self) -> float | None:
        """Return the cost per million output tokens; `None` without a price."""
        hours, price = self.hours_per_million_tokens, self.case.gpu_hour_price
        return None if hours is None or price is None else hours * price

    def attainment_under(self, slo: Slo) -> float:
        """Return the attainment of these same requests under other bounds."""
        if not self.case.spec.classes:
            good = sum(judge(flight, slo).good for flight in self.flights)
            return good / self.report.requests if self.report.requests else 1.0
        guaranteed = [flight for flight in self.flights if flight.guaranteed]
        requests = sum(each.requests for each in self.report.classes.values() if each.guaranteed)
        return sum(judge(flight, slo).good for flight in guaranteed) / max(1, requests)

    def to_json(self) -> dict[str, Any]:
        """Return the figures by the names of the benchmarks, and each change."""
        price = self.case.gpu_hour_price
        return {
            **self.report.to_json(),
            "output_tokens": self.report.output_tokens,
            "preemptions": self.report.preemptions,
            "start": {role.value: count for role, count in self.case.start.items()},
            "mean_gpus": self.mean_gpus,
            "most_gpus": self.most_gpus,
            "gpu_hours_per_million_output_tokens": self.hours_per_million_tokens,
            "cost": None if price is None else self.report.gpu_hours * price,
            "cost_per_million_output_tokens": self.cost_per_million_tokens,
            "decisions": [
                {
                    "at_s": change.at_s,
                    "role": change.role.value,
                    "from": change.before,
                    "to": change.after,
                    "sentence": change.sentence,
                }
                for change in self.changes
            ],
        }


def run(case: Case, policy: Policy, *, on_progress: OnProgress = lambda _: None) -> Run:
    """Simulate the case; `on_progress` is called with each tick's time."""
    setup = PoolSetup(
        name=case.name,
        spec=case.spec,
        trace=case.trace,
        profile=case.profile,
        start=case.start,
        router=case.router,
        prefix_caching=case.prefix_caching,
    )
    scenario = Scenario(
        pools=(setup,), cold_start=case.cold_start, gpus=case.spec.gpu_budget, seed=case.seed
    )
    simulation = Simulation(scenario, {case.name: _Watched(policy, on_progress)})
    report = simulation.run()[case.name]
    flights = tuple(simulation.pool(case.name).ended)
    return Run(case=case, report=report, flights=flights, changes=_changes(case, report, policy))


class _Watched:
    """A policy whose ticks are reported to `on_progress`."""

    def __init__(self, policy: Policy, on_progress: OnProgress) -> None:
        self.name = policy.name
        self._policy = policy
        self._on_progress = on_progress

    def tick(self, spec: PoolSpec, observation: Observation, now_s: float) -> PolicyAnswer:
        """Return the policy's own answer."""
        self._on_progress(now_s - EPOCH_S)
        return self._policy.tick(spec, observation, now_s)


def _changes(case: Case, report: PoolReport, policy: Policy) -> tuple[Change, ...]:
    said: Mapping[tuple[float, Role], str] = {}
    if isinstance(policy, Tandem):
        said = {
            (round(decision.at_s - EPOCH_S, 3), role): plan.sentence
            for decision in policy.decisions
            for role, plan in decision.roles.items()
        }
    found = []
    before: Fleet = case.start
    for moment in report.moments:
        for role in Role:
            if moment.asked[role] != before[role]:
                plain = f"{role} {before[role]} -> {moment.asked[role]}"
                sentence = said.get((round(moment.at_s, 3), role), plain)
                found.append(Change(moment.at_s, role, before[role], moment.asked[role], sentence))
        before = moment.asked
    return tuple(found)
