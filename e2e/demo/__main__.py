"""`make demo`: it runs the demo, says what was seen, and exits with 1 if that was not expected."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import aiohttp
import yaml
from rich.console import Console

from benchmarks.load.generator import LoadGenerator
from benchmarks.load.plan import Lengths
from e2e.cluster import names
from e2e.commands import CommandError, apply, kubectl
from e2e.demo import setup
from e2e.demo.blame import with_causes
from e2e.demo.calibrate import TooSlowError, measure_speed
from e2e.demo.chat import QUESTION, stream_chat
from e2e.demo.dashboard import Dashboard
from e2e.demo.phases import PHASES
from e2e.demo.report import render
from e2e.demo.show import SightPrinter, run_phases
from e2e.demo.story import PhaseRun, Seconds, Story, summarize
from e2e.demo.verdict import judge
from e2e.demo.watch import PoolWatch
from e2e.pools import NotInTimeError, wait_for_door
from tandem_operator.core.slo import Slo

NAMESPACE, POOL = "tandem-demo", "tiny"
URL = "http://127.0.0.1:30080"
PREFILL_URL = "http://127.0.0.1:30082"
DECODE_URL = "http://127.0.0.1:30083"
PROMETHEUS_DOOR = "http://127.0.0.1:30090"
OUT = names.BUILD / "demo"
READY_WITHIN_S = 600.0


class Stopwatch:
    """Names steps, says how long each took, and keeps it."""

    def __init__(self, console: Console) -> None:
        self.taken_s: dict[str, float] = {}
        self._console = console
        self._started_s = time.monotonic()

    @property
    def total_s(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self._started_s

    @contextmanager
    def step(self, name: str, doing: str) -> Iterator[None]:
        """Time one step."""
        self._console.print(f"==> {name}: {doing}", highlight=False)
        started_s = time.monotonic()
        yield
        self.taken_s[name] = time.monotonic() - started_s
        self._console.print(f"    {name}: {self.taken_s[name]:.1f} s", highlight=False)


def _start_pool(*, watch: Stopwatch, console: Console, images: dict[str, str]) -> str:
    with watch.step("ready", f"apply the pool {POOL} and wait until it is Ready"):
        setup.make_namespace(NAMESPACE)
        apply(_write_pool(OUT / "pool.yaml", images=images))
        kubectl("apply", "-n", NAMESPACE, "-f", str(setup.DOOR))
        kubectl(
            *("wait", "-n", NAMESPACE, f"inferencepools.tandem-inference.io/{POOL}"),
            *("--for=condition=Ready", f"--timeout={READY_WITHIN_S:.0f}s"),
            timeout_s=READY_WITHIN_S + 10.0,
        )
        wait_for_door(URL)
    console.print(f"\n[bold]{QUESTION}[/bold]")
    answer = asyncio.run(stream_chat(url=URL, model=POOL, console=console))
    console.print(
        "(The demo's model has random weights: it streams like any other, its words mean nothing.)"
        f" First answer {watch.total_s:.0f} s after the start.\n",
        style="dim",
        highlight=False,
    )
    return answer


def _write_pool(path: Path, *, images: dict[str, str], tpot_target: str | None = None) -> Path:
    pool = setup.sample_pool(namespace=NAMESPACE, images=images, tpot_target=tpot_target)
    pool["spec"]["metrics"] = {"prometheus": {"url": setup.PROMETHEUS_URL}}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(pool, sort_keys=False))
    return path


def _tell(story: Story, *, console: Console) -> bool:
    """Write summary and report, print the findings; return whether all was as expected."""
    findings = judge(story)
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "summary.json").write_text(json.dumps(summarize(story), indent=2) + "\n")
    (OUT / "report.html").write_text(render(story, findings=findings))
    console.print("\n[bold]What was to be seen[/bold]")
    for finding in findings:
        sign = "[green]yes[/green]" if finding.shown else "[red]NO [/red]"
        console.print(f"  {sign} {finding.sentence}", highlight=False)
    for run in story.runs:
        for change in run.changes:
            console.print(f"  [{run.phase.name}] {change.sentence}", markup=False, highlight=False)
    console.print(
        f"\n{story.seconds.total / 60:.1f} min in all. Report: build/demo/report.html, "
        "figures: build/demo/summary.json\n\n"
        "Three things to try next (the cluster stays; `make cluster-down` removes it):\n"
        "  export KUBECONFIG=build/kubeconfig\n"
        f"  1. kubectl get ipool -n {NAMESPACE} -w\n"
        f"     while  uv run python -m benchmarks.load --url {URL} --rate-rps 4 "
        "--prompt-tokens 1100-1600  runs in another terminal\n"
        f"  2. kubectl edit ipool {POOL} -n {NAMESPACE}     (another SLO: in force within seconds, "
        "no pod restarts)\n"
        f"  3. kubectl delete pod -n {NAMESPACE} -l tandem-inference.io/role=prefill "
        "--wait=false     (under load: no request is lost)",
        markup=False,
        highlight=False,
    )
    return all(finding.shown for finding in findings)


def run_demo(console: Console) -> bool:
    """Run the whole demo; return whether it showed what it is there to show."""
    watch = Stopwatch(console)
    # Images are mostly downloaded, unpacked and sent, Kubernetes and Prometheus are compiled: side
    # by side they take little longer than one of them.
    with setup.cluster_beside("images") as images_are_built:
        with watch.step("cluster", "a kind cluster of our own"):
            setup.cluster("up")
        setup.remove_pool(namespace=NAMESPACE)
        with setup.cluster_beside("prometheus") as prometheus_is_there:
            with watch.step("images", "operator, router and engine"):
                images_are_built()
                setup.cluster("images", "--load")
            images = setup.built_images()
            with watch.step("install", "Prometheus and the operator"):
                prometheus_is_there()
                setup.install_operator(images=images)
    answer = _start_pool(watch=watch, console=console, images=images)
    first_answer_s = watch.total_s
    slo = setup.slo_in_force(namespace=NAMESPACE, pool=POOL)
    engine_key = setup.engine_key(namespace=NAMESPACE, pool=POOL)
    starts = setup.pod_starts(namespace=NAMESPACE, pool=POOL)
    cold_start_s = max(start.seconds for start in starts)
    console.print(f"Engine pods took up to {cold_start_s:.0f} s to become Ready.", highlight=False)

    def tighten(tpot_s: float) -> Slo:
        target = f"{1000 * tpot_s:g}ms"
        apply(_write_pool(OUT / "tightened.yaml", images=images, tpot_target=target))
        console.print(f"kubectl apply -f build/demo/tightened.yaml: TPOT {target}", markup=False)
        return replace(slo, tpot_s=tpot_s)

    async def load() -> tuple[PhaseRun, ...]:
        records = OUT / "requests.jsonl"
        records.unlink(missing_ok=True)
        dashboard = Dashboard(slo=slo)
        generator = LoadGenerator(url=URL, model=POOL, record_path=records, on_record=dashboard.add)
        async with (
            generator,
            LoadGenerator(url=PREFILL_URL, model=POOL, api_key=engine_key) as prefill,
            LoadGenerator(url=DECODE_URL, model=POOL, api_key=engine_key) as decode,
        ):
            speed = await measure_speed(
                prefill=prefill, decode=decode, prompt_tokens=Lengths(1600, 1900)
            )
            console.print(
                f"One pod here reads {speed.prefill_tokens_per_s:.0f} prompt tokens/s, or writes "
                f"{speed.decode_tokens_per_s(tpot_s=slo.tpot_s):.0f} tokens/s inside its TPOT.",
                highlight=False,
            )
            runs = await run_phases(
                PHASES,
                slo=slo,
                speed=speed,
                cold_start_s=cold_start_s,
                generator=generator,
                watch=PoolWatch(
                    namespace=NAMESPACE,
                    pool=POOL,
                    kubeconfig=names.KUBECONFIG,
                    on_sight=SightPrinter(dashboard, console=console),
                ),
                dashboard=dashboard,
                tighten=tighten,
                console=console,
            )
        return await with_causes(
            runs, prometheus_url=PROMETHEUS_DOOR, namespace=NAMESPACE, pool=POOL
        )

    runs = asyncio.run(load())
    taken_s = watch.taken_s
    story = Story(
        seconds=Seconds(
            cluster=taken_s["cluster"],
            images=taken_s["images"],
            install=taken_s["install"],
            ready=taken_s["ready"],
            first_answer=first_answer_s,
            total=watch.total_s,
        ),
        slo=slo,
        cold_start_s=cold_start_s,
        answer=answer,
        runs=runs,
    )
    return _tell(story, console=console)


def main() -> int:
    """Run the demo for a terminal or a log."""
    console = Console(soft_wrap=True)
    try:
        return 0 if run_demo(console) else 1
    except (
        CommandError,
        NotInTimeError,
        TooSlowError,
        subprocess.CalledProcessError,
        aiohttp.ClientError,
    ) as error:
        console.print(f"The demo cannot go on: {error}", style="red", markup=False)
        return 1
    except KeyboardInterrupt:
        console.print("\nStopped. The cluster stays; `make cluster-down` removes it.")
        return 130


if __name__ == "__main__":
    sys.exit(main())
