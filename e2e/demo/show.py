"""The load phases of the demo, with the live table while they run."""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from rich.console import Console
from rich.live import Live

from benchmarks.load.generator import LoadGenerator
from benchmarks.load.plan import plan_requests
from e2e.demo.dashboard import Dashboard
from e2e.demo.phases import Phase
from e2e.demo.story import PhaseRun, Sight, split_by_phase
from e2e.demo.watch import PoolWatch
from tandem_operator.core.spec import Slo

LINE_EVERY_S = 10.0
SEED = 2026


async def run_phases(
    phases: tuple[Phase, ...],
    *,
    slo: Slo,
    cold_start_s: float,
    url: str,
    watch: PoolWatch,
    dashboard: Dashboard,
    record_path: Path,
    tighten: Callable[[str], Slo],
    console: Console,
) -> tuple[PhaseRun, ...]:
    """Send the load of every phase, one after another without a pause, and tell how each went.

    `tighten` applies a TPOT target to the running pool and returns the new bounds.
    """
    marks: list[tuple[Phase, Slo, float, float]] = []
    answers = []
    generator = LoadGenerator(
        url=url, model="tiny", record_path=record_path, on_record=dashboard.add
    )
    dashboard.in_flight = lambda: generator.in_flight
    async with generator, watch, _shown(dashboard, console=console):
        for phase in phases:
            if phase.tpot_target is not None:
                slo = await asyncio.to_thread(tighten, phase.tpot_target)
            traffic = phase.traffic(cold_start_s=cold_start_s)
            started_s = time.time()
            dashboard.begin(phase, slo=slo, ends_s=started_s + traffic.duration_s)
            plan = plan_requests(traffic, seed=SEED, run="demo")
            answers += await generator.send_all(plan, traffic=phase.name)
            # The last arrival of a Poisson plan lies before the end of its phase.
            await asyncio.sleep(started_s + traffic.duration_s - time.time())
            marks.append((phase, slo, started_s, time.time()))
        records = await asyncio.gather(*answers)
    return split_by_phase(marks, records=records, sights=watch.sights)


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
