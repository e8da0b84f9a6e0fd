"""The load phases of the demo, with the live table while they run."""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from rich.console import Console
from rich.live import Live

from benchmarks.load.generator import LoadGenerator
from benchmarks.load.plan import Traffic, plan_requests
from benchmarks.load.record import Record, Tally
from e2e.demo.calibrate import Speed
from e2e.demo.dashboard import Dashboard
from e2e.demo.phases import (
    CLIMB,
    FIRST_S,
    MOST_STARTS,
    MOST_STEPS,
    STEADY_S,
    STEP_S,
    TIGHTENED_SHARE,
    Phase,
)
from e2e.demo.story import PhaseRun, Sight, fill_in
from e2e.demo.watch import PoolWatch
from tandem_operator.core.role import Role
from tandem_operator.core.slo import Slo

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
    sender = _Sender(generator=generator, watch=watch, dashboard=dashboard)
    dashboard.in_flight = lambda: generator.in_flight
    async with watch, _shown(dashboard, console=console):
        for phase in phases:
            first = phase.traffic(speed, slo=slo, cold_start_s=cold_start_s)
            if phase.tightens:
                # The tightened bound meets the load that the phase before it ended with.
                first = replace(first, rate_rps=runs[-1].traffic.rate_rps)
                target_s = tightened_tpot_s(dashboard.figures(), slo=slo)
                slo = await asyncio.to_thread(tighten, target_s)
            started_s = time.time()
            last = first
            if phase.grows is None:
                await sender.send(first, slo=slo)
            else:
                before = watch.sights[-1].fleets[phase.grows].desired
                last = await sender.send_until_it_grows(
                    first, role=phase.grows, before=before, slo=slo
                )
                last = await sender.send_on(
                    last,
                    role=phase.grows,
                    before=before,
                    ends_s=started_s + first.duration_s,
                    longer_s=MOST_STARTS * cold_start_s,
                    slo=slo,
                )
            ended_s = time.time()
            runs.append(
                PhaseRun(
                    phase=phase,
                    traffic=replace(last, duration_s=ended_s - started_s),
                    first_rps=first.rate_rps,
                    slo=slo,
                    started_s=started_s,
                    ended_s=ended_s,
                )
            )
        records = await asyncio.gather(*sender.answers)
    return fill_in(runs, records=records, sights=watch.sights)


class _Sender:
    """Sends one stretch of traffic after another without a pause; its answers come later."""

    def __init__(self, *, generator: LoadGenerator, watch: PoolWatch, dashboard: Dashboard) -> None:
        self.answers: list[asyncio.Task[Record]] = []
        self._generator = generator
        self._watch = watch
        self._dashboard = dashboard
        self._stretches = 0

    async def send(self, traffic: Traffic, *, slo: Slo, until: str | None = None) -> None:
        """Send it all, and return when its time is over."""
        ends_s = time.time() + traffic.duration_s
        self._dashboard.begin(traffic, slo=slo, until=until)
        self._stretches += 1
        # Another seed for each: a prompt sent twice would be served by the prefix cache.
        plan = plan_requests(traffic, seed=SEED + self._stretches, run=f"demo-{self._stretches}")
        self.answers += await self._generator.send_all(plan, traffic=traffic.name)
        # The last arrival of a Poisson plan lies before the end of its time.
        await asyncio.sleep(ends_s - time.time())

    async def send_until_it_grows(
        self, traffic: Traffic, *, role: Role, before: int, slo: Slo
    ) -> Traffic:
        """Send until the role grows, a little more with every step; for a fair while.

        Returns the traffic of the last step.
        """
        until = f"rises until {role} grows"
        await self.send(replace(traffic, duration_s=FIRST_S), slo=slo, until=until)
        for _ in range(MOST_STEPS):
            if self._desired(role) > before:
                break
            traffic = replace(traffic, rate_rps=round(CLIMB * traffic.rate_rps, 2))
            await self.send(replace(traffic, duration_s=STEP_S), slo=slo, until=until)
        return traffic

    async def send_on(
        self,
        traffic: Traffic,
        *,
        role: Role,
        before: int,
        ends_s: float,
        longer_s: float,
        slo: Slo,
    ) -> Traffic:
        """Go on until `ends_s`, and up to `longer_s` more until the fleet is there and stays.

        Growth that is taken back was not needed yet: the load rises until it is. Returns the
        traffic of the last step.
        """
        grew, rises = self._desired(role) > before, 0
        while True:
            left_s = ends_s - time.time()
            must_rise = grew and rises < MOST_STEPS and self._desired(role) <= before
            there = self._is_steady(role) and not must_rise
            if left_s <= -longer_s or (left_s <= 0.0 and there):
                return traffic
            if must_rise:
                rises += 1
                traffic = replace(traffic, rate_rps=round(CLIMB * traffic.rate_rps, 2))
            step_s, until = STEP_S, f"goes on until {role} is Ready"
            if left_s > 0.0:
                step_s, until = min(STEP_S, left_s), f"goes on for {left_s:.0f} s"
            await self.send(replace(traffic, duration_s=step_s), slo=slo, until=until)

    def _desired(self, role: Role) -> int:
        return self._watch.sights[-1].fleets[role].desired

    def _is_steady(self, role: Role) -> bool:
        """Return whether every replica that the role wants has been Ready for a while."""
        since_s = time.time() - STEADY_S
        lately = (s.fleets[role] for s in self._watch.sights if s.at_s >= since_s)
        return len({count for fleet in lately for count in (fleet.desired, fleet.ready)}) == 1


def tightened_tpot_s(figures: Tally, *, slo: Slo) -> float:
    """Return a bound that the fleet as it is does not keep, and that one more pod can."""
    most_s = 0.8 * slo.tpot_s
    usual_s, high_s = figures.tpot_p50_s, figures.tpot_p95_s
    if usual_s is None or high_s is None:
        return round(most_s, 4)
    return round(min(TIGHTENED_SHARE * usual_s, 0.5 * (usual_s + high_s), most_s), 4)


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
