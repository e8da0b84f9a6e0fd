"""Steady load for a long time, with a random fault each minute."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random

from benchmarks.load.generator import LoadGenerator
from benchmarks.load.record import Record
from e2e.faults.catalogue import SCENARIOS
from e2e.faults.evidence import Evidence, Fate, Request
from e2e.faults.invariants import accounted
from e2e.faults.on_kind import (
    MODEL,
    STREAMED_SHARE,
    Disturbance,
    Ground,
    Scene,
    ground,
    requests_of,
)
from e2e.faults.scenario import Scenario

FIRST_AFTER_S = 20.0
LIMIT_S = 150.0
LONGEST_FAULT_S = 50.0
LEFT_OUT = frozenset(
    {"new-kv-revision", "prometheus-removed", "drain-against-budget", "routers-deleted"}
)
"""The faults that take longer than a minute to be over, or that reshape the pool."""


@dataclass(frozen=True, slots=True)
class Blow:
    """One fault of a soak."""

    scenario: Scenario
    fault_s: float
    dealt_s: float
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """The outcome of a soak.

    Attributes:
        faults: the count of each.
        lost: the count of lost requests; `without_cause` names those that no fault may have cost.
        wrong: a sentence for each answer with wrong content.
    """

    minutes: float
    rate_rps: float
    seed: int
    code: str
    sent: int
    finished: int
    refused: int
    lost: int
    hung: int
    without_cause: list[str]
    wrong: list[str]
    why: dict[str, int]
    faults: dict[str, int]
    errors: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Return whether nothing was wrong, nothing hung and nothing was lost without cause."""
        return not (self.wrong or self.hung or self.without_cause)

    def to_json(self) -> str:
        """Return the summary as JSON, for people and for the page."""
        return json.dumps({**asdict(self), "holds": self.holds}, indent=2)


def candidates() -> list[Scenario]:
    """Return the faults on kind that are over within a minute."""
    return [
        each
        for each in SCENARIOS
        if isinstance(each.play, Disturbance)
        and each.play.lasts_s <= LONGEST_FAULT_S
        and each.name not in LEFT_OUT
    ]


def summary_of(
    requests: Sequence[Request],
    blows: Sequence[Blow],
    *,
    minutes: float,
    rate_rps: float,
    seed: int,
    code: str,
) -> Summary:
    """Count, and charge every lost request to the faults it was open at."""
    fates = Counter(request.fate for request in requests)
    bad = [r for r in requests if r.fate is Fate.LOST]
    return Summary(
        minutes=minutes,
        rate_rps=rate_rps,
        seed=seed,
        code=code,
        sent=len(requests),
        finished=fates[Fate.FINISHED],
        refused=fates[Fate.REFUSED],
        lost=fates[Fate.LOST],
        hung=fates[Fate.HUNG],
        without_cause=[f"{r.name}: {r.why}" for r in bad if not _has_cause(r, blows)],
        wrong=[f"{r.name}: {r.wrong}" for r in requests if r.wrong is not None],
        why=dict(Counter(r.why for r in requests if r.why and r.fate is not Fate.FINISHED)),
        faults=dict(Counter(blow.scenario.name for blow in blows)),
        errors=[f"{blow.scenario.name}: {blow.error}" for blow in blows if blow.error],
    )


def _has_cause(request: Request, blows: Sequence[Blow]) -> bool:
    for blow in blows:
        seen = Evidence(
            requests=(request,),
            moments=(),
            said=(),
            fault_s=blow.fault_s,
            dealt_s=blow.dealt_s,
            undone_s=blow.dealt_s,
        )
        if not list(accounted(blow.scenario, seen)):
            return True
    return False


def run(
    *,
    minutes: float,
    rate_rps: float,
    every_s: float,
    seed: int,
    code: str,
    folder: Path,
    tell: Callable[[str], None],
) -> Summary:
    """Soak the pool, keep the summary, and return it."""
    on = ground()
    on.wait_whole()
    planned = on.reference.plan(
        seed=seed,
        rate_rps=rate_rps,
        duration_s=60.0 * minutes,
        run=f"soak-{int(time.time())}",
        streamed_share=STREAMED_SHARE,
    )
    asked = {plan.request_id: (plan, question) for plan, question in planned}

    async def both() -> tuple[list[Record], list[Blow]]:
        async with LoadGenerator(url=on.url, model=MODEL, timeout_s=LIMIT_S) as generator:
            plan = [each for each, _ in planned]
            answers = asyncio.create_task(generator.run(plan, traffic="soak"))
            blows = await _strike(on, minutes=minutes, every_s=every_s, seed=seed, tell=tell)
            return await answers, blows

    records, blows = asyncio.run(both())
    requests = requests_of(records, asked, limit_s=LIMIT_S)
    summary = summary_of(requests, blows, minutes=minutes, rate_rps=rate_rps, seed=seed, code=code)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "soak.json").write_text(summary.to_json() + "\n")
    return summary


def section(folder: Path) -> str:
    """Return what the page says of the last soak; nothing where there was none."""
    path = folder / "soak.json"
    if not path.exists():
        return ""
    found = json.loads(path.read_text())
    holds = found.pop("holds")
    summary = Summary(**found)
    struck = ", ".join(f"{name} {count}x" for name, count in sorted(summary.faults.items()))
    bad = [*summary.wrong, *summary.without_cause, *summary.errors]
    lines = [
        "\n## Soak\n",
        f"`python -m e2e.faults --soak {summary.minutes:g} --rate {summary.rate_rps:g}` "
        f"at {summary.code}, seed {summary.seed}: {sum(summary.faults.values())} random faults.\n",
        "| sent | finished | refused | lost | of them without cause | hung | wrong | holds |",
        "|---|---|---|---|---|---|---|---|",
        f"| {summary.sent} | {summary.finished} | {summary.refused} | {summary.lost} | "
        f"{len(summary.without_cause)} | {summary.hung} | {len(summary.wrong)} | "
        f"{'yes' if holds else '**no**'} |",
        f"\nFaults: {struck}.\n",
        *(f"* {each}" for each in bad),
        *(f"* {count}x {why}" for why, count in summary.why.items()),
    ]
    return "\n".join(lines) + "\n"


async def _strike(
    on: Ground, *, minutes: float, every_s: float, seed: int, tell: Callable[[str], None]
) -> list[Blow]:
    """Cause one fault after the other, and take each back before the next."""
    random = Random(f"{seed}/soak")
    started_s, blows = time.time(), list[Blow]()
    await asyncio.sleep(FIRST_AFTER_S)
    while time.time() - started_s < 60.0 * minutes - every_s:
        begun_s = time.time()
        scenario = random.choice(candidates())
        tell(f"[{(begun_s - started_s) / 60.0:.1f} min] {scenario.name}")
        blows.append(await _one(on, scenario, random))
        await asyncio.sleep(max(0.0, begun_s + every_s - time.time()))
    return blows


async def _one(on: Ground, scenario: Scenario, random: Random) -> Blow:
    assert isinstance(scenario.play, Disturbance)
    disturbance = scenario.play
    scene = Scene(on.pool, on.url, random)
    fault_s = time.time()
    try:
        undo = await asyncio.to_thread(disturbance.begin, scene)
        dealt_s = time.time() + disturbance.blind_s
        if undo is not None:
            try:
                await asyncio.sleep(disturbance.lasts_s)
            finally:
                await asyncio.to_thread(undo)
    except Exception as error:
        return Blow(scenario, fault_s, time.time(), f"{type(error).__name__}: {error}")
    return Blow(scenario, fault_s, dealt_s)
