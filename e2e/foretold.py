"""A test of `tandem diff`'s forecast of an SLO edit: `python -m e2e.foretold`, on the kind cluster.

The demo's pool serves steady traffic. `tandem diff --pool` then says what a tighter TPOT would do,
from the pool's own requests and engines. The edit is applied, traffic of the same kind goes on for
as long. The outcome is set beside the forecast.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import yaml
from rich.console import Console
from rich.table import Table

from benchmarks.load.generator import LoadGenerator
from benchmarks.load.plan import Lengths, Traffic, plan_requests
from benchmarks.load.record import Record, tally
from e2e.cluster import names
from e2e.commands import apply, kubectl
from e2e.demo import setup
from e2e.demo.show import tightened_tpot_s
from e2e.demo.story import Sight
from e2e.demo.watch import PoolWatch
from e2e.pools import Pool, wait_for_door
from tandem_operator.core.role import Role
from tandem_operator.core.slo import Slo

NAMESPACE, POOL = "tandem-demo", "tiny"
URL = "http://127.0.0.1:30080"
OUT = names.BUILD / "foretold"
WITHIN = 0.1


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of an edit: attainment of the new SLO, and replica-seconds by role."""

    attainment: float
    replica_s: Mapping[Role, float]


@dataclass(frozen=True, slots=True)
class Line:
    """One figure: its forecast and its real value."""

    what: str
    foretold: float
    happened: float

    @property
    def holds(self) -> bool:
        """Return whether both are within a tenth of each other."""
        return abs(self.foretold - self.happened) <= WITHIN * self.happened


def lines(foretold: Outcome, happened: Outcome) -> list[Line]:
    """Return the figures that are compared."""
    found = [Line("attainment of the new SLO", foretold.attainment, happened.attainment)]
    for what, roles in (
        ("prefill", (Role.PREFILL,)),
        ("decode", (Role.DECODE,)),
        ("both", tuple(Role)),
    ):
        sums = (sum(each.replica_s[role] for role in roles) for each in (foretold, happened))
        found.append(Line(f"{what} replica-seconds", *sums))
    return found


def replica_s(sights: Sequence[Sight], *, begin_s: float, end_s: float) -> dict[Role, float]:
    """Return the replica-seconds that were wanted between two moments, by role."""
    found = dict.fromkeys(Role, 0.0)
    ends = [*sights, replace(sights[-1], at_s=end_s)]
    for sight, following in pairwise(ends):
        lasted_s = min(following.at_s, end_s) - max(sight.at_s, begin_s)
        for role, fleet in sight.fleets.items():
            found[role] += fleet.desired * max(0.0, lasted_s)
    return found


def read_foretold(document: Mapping[str, object], *, lasts_s: float) -> Outcome:
    """Return what `tandem diff --json` says of the new spec, over as long as is compared."""
    new = document["new"]
    assert isinstance(new, dict)
    mean = new["mean_replicas"]
    return Outcome(
        attainment=float(new["attainment"]),
        replica_s={role: float(mean[role.value]) * lasts_s for role in Role},
    )


def main() -> int:
    """Run it and print both outcomes side by side; return 1 if they differ by more than a tenth."""
    parser = argparse.ArgumentParser(
        prog="python -m e2e.foretold", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--minutes", type=float, default=8.0, help="of traffic before and after")
    parser.add_argument("--rate-rps", type=float, default=0.7, help="requests per second")
    parser.add_argument(
        "--tpot", metavar="MS", type=float, help="the tighter bound; left out, one that needs more"
    )
    options = parser.parse_args()
    console = Console()
    traffic = Traffic(
        name="steady",
        rate_rps=options.rate_rps,
        duration_s=60.0 * options.minutes,
        prompt_tokens=Lengths(32, 96),
        output_tokens=Lengths(240, 360),
    )
    images = setup.built_images()
    setup.remove_pool(namespace=NAMESPACE)
    setup.cluster("prometheus")
    setup.install_operator(images=images)
    setup.make_namespace(NAMESPACE)
    apply(_written(OUT / "pool.yaml", images=images, tpot=None))
    kubectl("apply", "-n", NAMESPACE, "-f", str(setup.DOOR))
    Pool(namespace=NAMESPACE, name=POOL).wait_ready(within_s=600.0)
    wait_for_door(URL)
    foretold, happened = asyncio.run(
        _both(traffic, images=images, tpot_ms=options.tpot, console=console)
    )
    return _tell(lines(foretold, happened), console=console)


async def _both(
    traffic: Traffic, *, images: Mapping[str, str], tpot_ms: float | None, console: Console
) -> tuple[Outcome, Outcome]:
    """Return the foretold outcome of the edit after traffic of the same kind, and the real one."""
    watch = PoolWatch(namespace=NAMESPACE, pool=POOL, kubeconfig=names.KUBECONFIG)
    async with LoadGenerator(url=URL, model=POOL) as generator, watch:
        console.print(f"{traffic.duration_s / 60:.0f} min of {traffic.rate_rps:g} requests/s ...")
        before = await generator.run(plan_requests(traffic, seed=1, run="a"), traffic="before")
        slo = setup.slo_in_force(namespace=NAMESPACE, pool=POOL)
        if tpot_ms is None:
            seen = tally([(record, slo) for record in before])
            tpot_ms = 1000.0 * tightened_tpot_s(seen, slo=slo)
        tightened = _written(OUT / "tightened.yaml", images=images, tpot=f"{tpot_ms:g}ms")
        _say(before, slo, console=console)
        fleet = watch.sights[-1].fleets
        start = f"{fleet[Role.PREFILL].desired}P{fleet[Role.DECODE].desired}D"
        console.print(f"tandem diff --pool {POOL} tightened.yaml --start {start} ...")
        document = await asyncio.to_thread(_diff, tightened, start, traffic.duration_s)
        console.print(str(document["verdict"]))
        apply(tightened)
        begin_s = time.time()
        console.print(f"applied TPOT {tpot_ms:g} ms; the same traffic again ...")
        records = await generator.run(plan_requests(traffic, seed=2, run="b"), traffic="after")
        end_s = begin_s + traffic.duration_s
    new = replace(slo, tpot_s=tpot_ms / 1000.0)
    _say(records, new, console=console)
    happened = Outcome(
        attainment=tally([(record, new) for record in records]).attainment or 0.0,
        replica_s=replica_s(watch.sights, begin_s=begin_s, end_s=end_s),
    )
    return read_foretold(document, lasts_s=traffic.duration_s), happened


def _diff(tightened: Path, start: str, span_s: float) -> dict[str, object]:
    report = OUT / "diff.json"
    command = ("diff", "--pool", POOL, "-n", NAMESPACE, "--kubeconfig", str(names.KUBECONFIG))
    subprocess.run(
        [
            *(sys.executable, "-m", "tandem_operator.cli", *command, str(tightened)),
            *("--start", start, "--span", f"{span_s:.0f}s", "--seeds", "1", "--json", str(report)),
        ],
        check=True,
        stdin=subprocess.DEVNULL,
    )
    found: dict[str, object] = json.loads(report.read_text())
    return found


def _written(path: Path, *, images: Mapping[str, str], tpot: str | None) -> Path:
    pool = setup.sample_pool(namespace=NAMESPACE, images=dict(images), tpot_target=tpot)
    pool["spec"]["metrics"] = {"prometheus": {"url": setup.PROMETHEUS_URL}}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(pool, sort_keys=False))
    return path


def _say(records: Sequence[Record], slo: Slo, *, console: Console) -> None:
    found = tally([(record, slo) for record in records])
    p50, p95 = (1000.0 * (value or 0.0) for value in (found.tpot_p50_s, found.tpot_p95_s))
    console.print(
        f"{found.requests} requests, {found.good} good, {found.failed} failed; "
        f"TPOT p50 {p50:.1f} ms, p95 {p95:.1f} ms"
    )


def _tell(found: Sequence[Line], *, console: Console) -> int:
    table = Table("figure", "foretold", "happened", "difference")
    for line in found:
        apart = f"{100.0 * (line.foretold / line.happened - 1.0):+.1f} %"
        shown = (f"{value:.3g}" for value in (line.foretold, line.happened))
        table.add_row(line.what, *shown, apart)
    console.print(table)
    wrong = [line.what for line in found if not line.holds]
    if wrong:
        console.print(f"Further apart than {100 * WITHIN:.0f} %: {', '.join(wrong)}.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
