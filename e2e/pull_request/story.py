"""A tighter SLO, from a branch to the running pool.

The manifest is in Git, with the pool's recorded traffic and the speed of its engines. A branch
tightens TPOT, and the steps of `manifests/github/pool-cost.yaml` run on it, as CI would. It is
merged. Flux's own library applies it and waits. A real Prometheus judges the alerts.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster import names
from e2e.cluster.gobuild import GITOPS, build
from e2e.cluster.progress import CannotContinueError, run, say, step
from e2e.cluster.tools import ensure_tools
from e2e.demo import setup
from e2e.demo.verdict import Finding
from e2e.pools import wait_until
from e2e.prometheus_process import Ask, prometheus

OUT = names.BUILD / "pull-request"
WORKFLOW = names.ROOT / "manifests" / "github" / "pool-cost.yaml"
RULES = names.ROOT / "manifests" / "alerts.yaml"
NEEDS_GITHUB = ("pip install", "gh ")
SCRAPE_S = 5


@dataclass(frozen=True, slots=True)
class Place:
    """A pool on a cluster; its operator's metrics are at a port of this machine."""

    kubeconfig: Path
    namespace: str
    pool: str
    metrics_port: int

    def get(self, *words: str) -> dict[str, Any]:
        """Return what the API server has."""
        cluster = ("--kubeconfig", self.kubeconfig, "--namespace", self.namespace)
        return dict(json.loads(run([ensure_tools()["kubectl"], *cluster, "get", *words, "-ojson"])))

    def pods(self) -> dict[str, tuple[str, int]]:
        """Return the signs of each pod that it is the same one and never restarted."""
        return {
            pod["metadata"]["name"]: (
                pod["metadata"]["uid"],
                sum(one["restartCount"] for one in pod["status"].get("containerStatuses", ())),
            )
            for pod in self.get("pods", "-l", f"tandem-inference.io/pool={self.pool}")["items"]
        }

    def templates(self) -> dict[str, Any]:
        """Return the pod template of each Deployment: another one would replace the pods."""
        found = self.get("deployments", "-l", f"tandem-inference.io/pool={self.pool}")["items"]
        return {each["metadata"]["name"]: each["spec"]["template"] for each in found}

    def bounds(self) -> dict[str, Any]:
        """Return the SLO that its routers judge by."""
        settings = self.get("configmap", f"{self.pool}-router")["data"]["router.json"]
        return dict(json.loads(settings)["slo"])


class Repository:
    """A clone of a repository, with its origin beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "fleet"
        run(["git", "init", "--quiet", "--bare", "--initial-branch=main", folder / "origin.git"])
        run(["git", "clone", "--quiet", folder / "origin.git", self.folder])
        for key, value in (("name", "A user"), ("email", "a@example.com")):
            self.git("config", f"user.{key}", value)
        self.git("config", "commit.gpgsign", "false")

    def git(self, *words: str) -> str:
        """Run git in the clone."""
        return run(["git", *words], cwd=self.folder)

    def push(self, branch: str, message: str, files: Mapping[str, str]) -> None:
        """Commit files to a branch, a new one if need be, and push it."""
        self.git("checkout", "--quiet", "-B", branch)
        for name, text in files.items():
            target = self.folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)
        self.git("push", "--quiet", "--set-upstream", "origin", branch)

    def merge(self, branch: str) -> None:
        """Merge a branch as the button of a pull request does."""
        self.git("checkout", "--quiet", "main")
        self.git("merge", "--quiet", "--no-ff", "--no-edit", branch)
        self.git("push", "--quiet", "origin", "main")


def run_workflow(workflow: Mapping[str, Any], folder: Path, *, scratch: Path) -> None:
    """Run its steps, but for those that need GitHub; one that fails ends the story."""
    [job] = workflow["jobs"].values()
    tools = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    given = {"GITHUB_BASE_REF": "main", "RUNNER_TEMP": str(scratch), "PATH": tools}
    for each in job["steps"]:
        script = each.get("run", NEEDS_GITHUB[0])
        if not script.startswith(NEEDS_GITHUB):
            with step("CI", each["name"]):
                command = ["bash", "-eo", "pipefail", "-c", script]
                say(run(command, cwd=folder, env={**os.environ, **workflow["env"], **given}))


def flux(place: Place, manifest: Path, *, timeout: str = "10m") -> dict[str, Any]:
    """Apply a manifest and wait for it as Flux does."""
    command = ["apply", "--kubeconfig", place.kubeconfig, "--timeout", timeout]
    outcome = json.loads(run([build(GITOPS) / "gitops", *command], stdin=manifest.read_text()))
    if "error" in outcome:
        raise CannotContinueError(f"Flux gives up on {manifest.name}: {outcome['error']}")
    return dict(outcome)


@contextmanager
def judged(place: Place, folder: Path) -> Iterator[Ask]:
    """Run a Prometheus with Tandem's alerts that scrapes the place's operator."""
    operator = {
        "targets": [f"127.0.0.1:{place.metrics_port}"],
        "labels": {"namespace": setup.OPERATOR_NAMESPACE},
    }
    config = {
        "global": {"scrape_interval": f"{SCRAPE_S}s", "evaluation_interval": f"{SCRAPE_S}s"},
        "rule_files": [str(RULES)],
        "scrape_configs": [
            {"job_name": "operator", "honor_labels": True, "static_configs": [operator]}
        ],
    }
    with prometheus(folder, config) as ask:
        yield ask


def alerts(ask: Ask, place: Place, *, since_s: float) -> list[str]:
    """Return the alerts of the pool that were pending or firing at any time since then, by name."""
    found = _asked(ask, f"max_over_time({_series('ALERTS', place)}[{since_s:.0f}s])")
    return sorted({one["metric"]["alertname"] for one in found})


def is_judged(ask: Ask, place: Place) -> bool:
    """Return whether Prometheus has the alerts' series: without them, silence says nothing."""
    return bool(_asked(ask, _series("tandem_pool_slo_objective_ratio", place)))


def _series(name: str, place: Place) -> str:
    return f'{name}{{namespace="{place.namespace}", pool="{place.pool}"}}'


def _asked(ask: Ask, query: str) -> list[dict[str, Any]]:
    return list(ask("/api/v1/query", query=query)["result"])


def tell(
    place: Place,
    *,
    pools: tuple[Mapping[str, Any], Mapping[str, Any]],
    record: Callable[[], Mapping[str, str]],
    watch_s: float,
    out: Path = OUT,
) -> list[Finding]:
    """Tell the whole story; `record` lets the pool work and returns its traffic and engines."""
    workflow = yaml.safe_load(WORKFLOW.read_text())
    manifest, traffic, engines = (workflow["env"][key] for key in ("POOL", "TRAFFIC", "ENGINES"))
    old, new = (yaml.safe_dump(dict(pool), sort_keys=False) for pool in pools)
    out.mkdir(parents=True, exist_ok=True)
    comment = out / "comment.md"
    comment.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="tandem-fleet-") as scratch, ExitStack() as stack:
        repository = Repository(Path(scratch))
        repository.push("main", "Run the pool", {manifest: old})
        with step("flux", "applying the pool, and waiting until it is rolled out"):
            flux(place, repository.folder / manifest)
        ask = stack.enter_context(judged(place, Path(scratch)))
        recorded = record()
        inputs = {traffic: recorded["traffic"], engines: recorded["engines"]}
        repository.push("main", "Record traffic and engines", inputs)
        repository.push("tighter", "Tighten TPOT", {manifest: new})
        run_workflow(workflow, repository.folder, scratch=out)
        before, templates = place.pods(), place.templates()
        repository.merge("tighter")
        merged_s = time.monotonic()
        with step("flux", "applying the merged manifest, and waiting until it is rolled out"):
            outcome = flux(place, repository.folder / manifest)
        wanted = place.get("inferencepool", place.pool)["spec"]["slo"]["tpot"]["target"]
        wait_until(lambda: _tpot(place) == wanted, within_s=180.0, what="the new bound in force")
        in_force_s = time.monotonic() - merged_s
        with step("prometheus", f"judging the alerts for {watch_s:.0f} s"):
            time.sleep(watch_s)
        fired = alerts(ask, place, since_s=time.monotonic() - merged_s)
        after, seen = place.pods(), is_judged(ask, place)
        same = place.templates() == templates
        (out / "history.txt").write_text(repository.git("log", "--graph", "--stat", "main"))
    stayed = before.keys() & after.keys()
    whole = all(after[name] == before[name] for name in stayed)
    findings = [
        Finding(comment.exists(), "CI took the edit, and wrote what it costs."),
        Finding(
            set(outcome["changes"].values()) == {"configured"},
            f"Flux applied it in {outcome['applied_s']:.1f} s, and called it rolled out"
            f" {outcome['waited_s']:.1f} s later.",
        ),
        Finding(True, f"The routers judged by {wanted} {in_force_s:.1f} s after the merge."),
        Finding(
            bool(same and stayed and whole),
            f"{len(stayed)} of {len(before)} pods stayed, with the same templates, and"
            f" {'none' if whole else 'some'} restarted.",
        ),
        Finding(seen, "Prometheus had the pool's objective and its burn rates."),
        Finding(not fired, f"Alerts since the merge: {', '.join(fired) or 'none'}."),
    ]
    document = {"flux": outcome, "findings": [asdict(one) for one in findings]}
    (out / "story.json").write_text(json.dumps(document, indent=2) + "\n")
    return findings


def _tpot(place: Place) -> str:
    return f"{1000 * place.bounds()['tpot_s']:g}ms"
