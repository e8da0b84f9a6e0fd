"""A search over static fleets: the cheapest for an attainment, and the most efficient of all."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from tandem_operator.core.role import Role
from tandem_operator.sim.policy import Static
from tandem_operator.sim.pool import PoolSetup
from tandem_operator.sim.report import PoolReport
from tandem_operator.sim.simulate import Scenario, simulate


@dataclass(frozen=True, slots=True)
class Grid:
    """Every fleet that was run, in the order of the runs."""

    reports: tuple[PoolReport, ...]
    wanted: float

    @property
    def best(self) -> PoolReport | None:
        """Return the cheapest fleet that reaches the attainment; `None` if none does."""
        enough = [r for r in self.reports if r.attainment >= self.wanted]
        return min(enough, key=lambda r: (r.gpu_hours, -r.attainment), default=None)

    @property
    def frontier(self) -> tuple[PoolReport, ...]:
        """Return fleets that no other beats in both attainment and GPU-hours, cheapest first."""
        found: list[PoolReport] = []
        for report in sorted(self.reports, key=lambda r: (r.gpu_hours, -r.attainment)):
            if not found or report.attainment > found[-1].attainment:
                found.append(report)
        return tuple(found)


def static_grid(
    setup: PoolSetup,
    scenario: Scenario,
    *,
    prefill: Iterable[int],
    decode: Iterable[int],
    wanted: float = 0.95,
) -> Grid:
    """Run fleets of all these sizes, except those that cannot be the cheapest.

    More replicas of a role never hurt. So once a fleet reaches `wanted`, fleets that are larger in
    both roles are not run.
    """
    return Grid(tuple(_runs(setup, scenario, sorted(prefill), sorted(decode), wanted)), wanted)


def _runs(
    setup: PoolSetup, scenario: Scenario, prefill: list[int], decode: list[int], wanted: float
) -> Iterator[PoolReport]:
    enough: list[tuple[int, int]] = []
    for p in prefill:
        for d in decode:
            if any(p >= p0 and d >= d0 for p0, d0 in enough):
                break
            fleet = {Role.PREFILL: p, Role.DECODE: d}
            report = simulate(replace(setup, start=fleet), Static(fleet), scenario)
            if report.attainment >= wanted:
                enough.append((p, d))
            yield report
