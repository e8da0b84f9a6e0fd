"""The load phases of the demo, with the live table while they run."""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Callable

from rich.console import Console
from rich.live import Live

from benchmarks.load.generator import LoadGenerator
from benchmarks.load.plan import plan_requests
from e2e.demo.calibrate import Speed
from e2e.demo.dashboard import Dashboard
from e2e.demo.phases import TIGHTENED_SHARE, Phase
from e2e.demo.story import PhaseRun, Sight, fill_in
from e2e.demo.watch import PoolWatch
from tandem_operator.core.spec import Slo

LINE_EVERY_S = 10.0
SEED = 2026


async def run_phases(
    phases: tuple[Phase, ...],
    *,
    slo: Slo,
    speed: Speed,
    cold_start_s: float,
    generator: LoadGenerator,
    watch: PoolWatch,
    dashboard: Dashboard,
    tighten: Callable[[float], Slo],
    console: Console,
) -> tuple[PhaseRun, ...]:
    """Send the load of every phase, one after another without a pause, and tell how each went.

    `tighten` applies a TPOT target to the running pool and returns the new bounds.
    """
    runs: list[PhaseRun] = []
    answers = []
    applied = slo
    dashboard.in_flight = lambda: generator.in_flight
    async with watch, _shown(dashboard, console=console):
        for phase in phases:
            if phase.tightens:
                target_s = _tightened_tpot_s(dashboard, slo=slo)
                slo = await asyncio.to_thread(tighten, target_s)
            traffic = phase.traffic(speed, slo=applied, cold_start_s=cold_start_s)
            started_s = time.time()
            dashboard.begin(traffic, slo=slo)
            plan = plan_requests(traffic, seed=SEED, run="demo")
            answers += await generator.send_all(plan, traffic=phase.name)
            # The last arrival of a Poisson plan lies before the end of its phase.
            await asyncio.sleep(started_s + traffic.duration_s - time.time())
            runs.append(
                PhaseRun(
                    phase=phase,
                    traffic=traffic,
                    slo=slo,
                    started_s=started_s,
                    ended_s=time.time(),
                )
            )
        records = await asyncio.gather(*answers)
    return fill_in(runs, records=records, sights=watch.sights)


def _tightened_tpot_s(dashboard: Dashboard, *, slo: Slo) -> float:
    """A bound that the fleet as it is does not keep, and that one more pod can."""
    measured_s = dashboard.tpot_p50_s()
    wanted_s = min(TIGHTENED_SHARE * (measured_s or slo.tpot_s), 0.8 * slo.tpot_s)
    return round(wanted_s, 4)


@contextlib.asynccontextmanager
async def _shown(dashboard: Dashboard, *, console: Console) -> AsyncIterator[None]:
    """Show the dashboard as a live table, or as a line now and then where none can be drawn."""
    if console.is_terminal and sys.stdout.isatty():
        with Live(dashboard, console=console, refresh_per_second=1, transient=True):
            yield
        return
    task = asyncio.create_task(_print_lines(dashboard, console=console))
    try:
        yield
    finally:
        task.cancel()


async def _print_lines(dashboard: Dashboard, *, console: Console) -> None:
    while True:
        await asyncio.sleep(LINE_EVERY_S)
        console.print(dashboard.line(), soft_wrap=True, markup=False, highlight=False)


class SightPrinter:
    """Feeds the dashboard, and prints every new decision above it."""

    def __init__(self, dashboard: Dashboard, *, console: Console) -> None:
        self._dashboard = dashboard
        self._console = console

    def __call__(self, sight: Sight) -> None:
        """Take in one look at the pool."""
        before = self._dashboard.sight
        self._dashboard.sight = sight
        if before is None:
            return
        if sight.sentence != before.sentence and " -> " in sight.sentence:
            self._console.print(f"decision: {sight.sentence}", markup=False, highlight=False)
        for role, fleet in sight.fleets.items():
            if fleet != before.fleets[role]:
                self._console.print(
                    f"{role}: {fleet.ready} of {fleet.desired} pods Ready", highlight=False
                )
