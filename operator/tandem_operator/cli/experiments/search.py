"""Search static fleets: the smallest one that keeps an SLO, and the results of each fleet.

More replicas of a role never hurt, and a tighter bound never helps. So the result of one run saves
many others. Runs are kept, so no fleet is simulated twice under one TTFT bound. A TPOT bound is
judged later. In a static fleet whose router uses only TTFT, the TPOT bound changes only which
requests are good. From these answers the router learns the length of answers.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import ceil

from tandem_operator.cli.experiments.experiment import OnProgress, Run, run
from tandem_operator.cli.input.case import Case
from tandem_operator.cli.units import Fleet
from tandem_operator.core.role import Role
from tandem_operator.core.slo import Slo
from tandem_operator.sim.flight import judge
from tandem_operator.sim.policy import Static

Size = tuple[int, int]


@dataclass(frozen=True, slots=True)
class FleetPoint:
    """The results of one fleet.

    Attributes:
        within: whether bounds and budget of the pool allow it.
        run: the run, without its requests.
        ttft_needed_s, tpot_needed_s: targets that the wanted share of requests would keep, each
            bound by itself; `None` if too few requests were answered.
    """

    fleet: Fleet
    gpus: int
    within: bool
    run: Run
    attainment: float
    wanted: float
    ttft_needed_s: float | None
    tpot_needed_s: float | None

    @property
    def meets(self) -> bool:
        """Return whether enough requests keep both bounds."""
        return self.attainment >= self.wanted

    @property
    def tokens_per_gpu_s(self) -> float:
        """Return the output tokens per second and GPU."""
        held_s = sum(self.run.report.gpu_seconds.values())
        return self.run.report.output_tokens / held_s if held_s > 0.0 else 0.0


@dataclass(frozen=True, slots=True)
class _Judged:
    """A run with the data that judge it under any TPOT bound."""

    run: Run
    in_time: int
    tpots_s: tuple[float, ...]
    ttft_needed_s: float | None
    tpot_needed_s: float | None

    def attainment(self, slo: Slo) -> float:
        requests = self.run.report.requests
        kept = self.in_time + bisect_right(self.tpots_s, slo.tpot_s)
        return kept / requests if requests else 1.0


@dataclass(frozen=True, slots=True)
class Found:
    """The smallest fleet, and the least count that each role needs however large the other is."""

    point: FleetPoint
    least: Size


@dataclass(slots=True)
class Search:
    """Every fleet that was run. `on_progress` is called for each new run."""

    case: Case
    on_progress: OnProgress = lambda _: None
    runs: int = 0
    _judged: dict[tuple[float, float, Size], _Judged] = field(default_factory=dict)

    def at(self, size: Size, slo: Slo) -> FleetPoint:
        """Return the results of a fleet under an SLO."""
        fleet = {Role.PREFILL: size[0], Role.DECODE: size[1]}
        key = (slo.ttft_s, slo.ttft_s_per_thousand_prompt_tokens, size)
        judged = self._judged.get(key)
        if judged is None:
            judged = self._judged[key] = self._run(fleet, slo)
        return FleetPoint(
            fleet=fleet,
            gpus=self.case.gpus(fleet),
            within=self._within(size),
            run=judged.run,
            attainment=judged.attainment(slo),
            wanted=slo.attainment,
            ttft_needed_s=judged.ttft_needed_s,
            tpot_needed_s=judged.tpot_needed_s,
        )

    def points(self, slo: Slo) -> list[FleetPoint]:
        """Return all fleets that were run under these TTFT bounds, smallest first."""
        ttft = (slo.ttft_s, slo.ttft_s_per_thousand_prompt_tokens)
        found = [self.at(size, slo) for *bounds, size in list(self._judged) if (*bounds,) == ttft]
        return sorted(found, key=lambda p: (p.gpus, p.fleet[Role.PREFILL]))

    def smallest(self, slo: Slo, *, tighter_than: Found | None = None) -> Found | None:
        """Return the fleet with the fewest GPUs that keeps the SLO; `None` if there is none.

        The search tries each role alone beside the largest other role, which gives its least count.
        Then it tries the pairs from there on, by their GPUs. `tighter_than` is the need of a looser
        SLO.
        """
        low, most = self.low if tighter_than is None else tighter_than.least, self.most
        if not self.at(most, slo).meets:
            return None
        least = (
            self._least(slo, lambda n: (n, most[1]), low[0], most[0]),
            self._least(slo, lambda n: (most[0], n), low[1], most[1]),
        )
        failed: list[Size] = []
        best: FleetPoint | None = None
        for size in self._by_gpus(least, most):
            if any(size[0] <= p and size[1] <= d for p, d in failed):
                continue
            if best is not None and self.case.gpus(_fleet(size)) > best.gpus:
                break
            point = self.at(size, slo)
            if not point.meets:
                failed.append(size)
            elif best is None or point.attainment > best.attainment:
                best = point
        return None if best is None else Found(best, least)

    @property
    def low(self) -> Size:
        """Return the least replicas that the pool allows."""
        roles = self.case.spec.roles
        return max(1, roles[Role.PREFILL].min_replicas), max(1, roles[Role.DECODE].min_replicas)

    @property
    def most(self) -> Size:
        """Return the most replicas that the pool allows, without regard to its GPU budget."""
        roles = self.case.spec.roles
        return roles[Role.PREFILL].max_replicas, roles[Role.DECODE].max_replicas

    def _least(self, slo: Slo, size: Callable[[int], Size], low: int, high: int) -> int:
        """Return the least count that keeps the SLO; `high` surely keeps it, `low` likely does."""
        if self.at(size(low), slo).meets:
            return low
        step = 1
        while low + step < high and not self.at(size(low + step), slo).meets:
            low, step = low + step, 2 * step
        low, high = low + 1, min(high, low + step)
        while low < high:
            middle = (low + high) // 2
            if self.at(size(middle), slo).meets:
                high = middle
            else:
                low = middle + 1
        return high

    def _by_gpus(self, least: Size, most: Size) -> Iterator[Size]:
        sizes = [(p, d) for p in range(least[0], most[0] + 1) for d in range(least[1], most[1] + 1)]
        return iter(sorted(sizes, key=lambda size: (self.case.gpus(_fleet(size)), size)))

    def _within(self, size: Size) -> bool:
        budget = self.case.spec.gpu_budget
        inside = all(
            low <= n <= most for low, n, most in zip(self.low, size, self.most, strict=True)
        )
        return inside and (budget is None or self.case.gpus(_fleet(size)) <= budget)

    def _run(self, fleet: Fleet, slo: Slo) -> _Judged:
        self.runs += 1
        self.on_progress(self.runs)
        done = run(fixed_case(self.case, fleet, slo), Static(fleet))
        verdicts = ((flight, judge(flight, slo)) for flight in done.flights)
        kept = [flight for flight, verdict in verdicts if not (verdict.failed or verdict.late_ttft)]
        tpots_s = sorted(flight.tpot_s for flight in kept if flight.tpot_s is not None)
        per_token_s = slo.ttft_s_per_thousand_prompt_tokens / 1000.0
        answered = [flight for flight in done.flights if flight.ttft_s is not None]
        return _Judged(
            # A run has many requests, and each run would keep its own.
            run=replace(done, flights=()),
            in_time=len(kept) - len(tpots_s),
            tpots_s=tuple(tpots_s),
            ttft_needed_s=_needed(
                [(f.ttft_s or 0.0) - per_token_s * f.request.prompt_tokens for f in answered],
                done,
            ),
            tpot_needed_s=_needed([f.tpot_s or 0.0 for f in answered], done),
        )


def fixed_case(case: Case, fleet: Fleet, slo: Slo) -> Case:
    """Return the case for a fleet of fixed size."""
    # The budget is judged, not enforced: else pods of a fleet above it would stay unscheduled.
    spec = replace(case.spec, slo=slo, gpu_budget=None)
    # The results of the fleet by itself, whatever the TPOT bound is.
    router = replace(case.router, decode_gate=False, overflow=False)
    return replace(case, spec=spec, router=router, start=fleet)


def _needed(values_s: list[float], done: Run) -> float | None:
    """Return the bound that the wanted share of all requests keeps."""
    place = ceil(done.case.spec.slo.attainment * done.report.requests) - 1
    return sorted(values_s)[place] if 0 <= place < len(values_s) else None


def _fleet(size: Size) -> Fleet:
    return {Role.PREFILL: size[0], Role.DECODE: size[1]}
