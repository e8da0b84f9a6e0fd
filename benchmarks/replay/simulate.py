"""One replay: a trace, a setup and a policy give the figures; it runs once and is remembered."""

import hashlib
import itertools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import other_routers
from benchmarks.replay.environment import SIMULATOR
from benchmarks.replay.setup import Setup, engine_args
from benchmarks.replay.traces import replay_lines
from tandem_contracts import ttft_bound
from tandem_operator.sim.traces.trace import Trace

HERE = Path(__file__).resolve().parent
OPERATOR = HERE.parents[1] / "operator" / "tandem_operator"
SAMPLE_MS = 5000.0
ROLES = ("prefill", "decode")
SHARES = ("p50", "p75", "p90", "p95", "p99")

Telemetry = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Job:
    """One replay to run.

    Attributes:
        policy: `tandem`, `dynamo`, `static` or `clairvoyant`.
        options: the policy's further settings, for example a fleet or a planner's settings.
    """

    policy: str
    trace: str
    trace_hash: str
    setup: Setup
    options: Mapping[str, Any]

    @property
    def label(self) -> str:
        """Return its name for people."""
        if "fleet" in self.options:
            prefill, decode = self.options["fleet"]
            return f"{self.trace} {self.policy} {prefill}P{decode}D"
        planner = self.options.get("planner", {})
        if "prefill_min_endpoint" in planner:
            floor = f"{planner['prefill_min_endpoint']}P{planner['decode_min_endpoint']}D"
            return f"{self.trace} {self.policy} floor {floor}"
        return f"{self.trace} {self.policy}"

    def key(self) -> str:
        """Return the result's name, by the simulator's input and not by the code that makes it.

        Where Tandem decides, its code is a part of that: core, and the adapter that shows it the
        pool.
        """
        told = {
            "policy": self.policy,
            "trace": self.trace_hash,
            "setup": asdict(self.setup),
            "engines": [engine_args(self.setup, role, measured=Path("h200")) for role in ROLES],
            "options": dict(self.options),
            "simulator": SIMULATOR.read_text(),
        }
        parts = [json.dumps(told, sort_keys=True)]
        if self.policy == "tandem":
            sources = [HERE / "policy.py", HERE / "sight.py", OPERATOR / "sim" / "ledger.py"]
            sources += [Path(other_routers.__file__), Path(ttft_bound.__file__)]
            sources += sorted((OPERATOR / "core").rglob("*.py"))
            for package in ("tandem_routing", "tandem_least_squares"):
                sources += sorted((OPERATOR.parent.parent / "engine" / package).glob("*.py"))
            parts += [hashlib.sha256(path.read_bytes()).hexdigest() for path in sources]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]


@dataclass(frozen=True, slots=True)
class Moment:
    """The pool every five simulated seconds."""

    at_s: float
    arrivals_rps: float
    prefill: int
    decode: int
    starting: int
    waiting_prefill: int
    waiting_decode: int
    ttft_s: float | None


@dataclass(frozen=True, slots=True)
class Result:
    """One replay's figures. `good` requests kept both bounds; GPUs count from their order on."""

    requests: int
    completed: int
    good: int
    gpu_s: float
    duration_s: float
    prefill_mean: float
    decode_mean: float
    ttft_s: Mapping[str, float]
    tpot_s: Mapping[str, float]
    changes: int
    moments: tuple[Moment, ...]

    @property
    def attainment(self) -> float:
        """Return the share of good requests among all requests."""
        return self.good / self.requests

    @property
    def good_per_gpu_s(self) -> float:
        """Return good requests per second and GPU held."""
        return self.good / self.gpu_s if self.gpu_s > 0.0 else 0.0

    def to_json(self) -> str:
        """Return the text that `from_json` reads back."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> "Result":
        """Return the result that was written."""
        raw = json.loads(text)
        moments = tuple(Moment(**moment) for moment in raw.pop("moments"))
        return Result(**raw, moments=moments)


def prepared(trace: Trace, folder: Path) -> tuple[Path, str]:
    """Return the trace as a file for the simulator, and its hash."""
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{os.getpid()}.part"
    with part.open("w", encoding="utf-8") as out:
        out.writelines(replay_lines(trace))
    digest = hashlib.sha256(part.read_bytes()).hexdigest()
    path = folder / f"{digest[:24]}.jsonl"
    part.replace(path)
    return path, digest


def run(job: Job, trace: Trace, *, folder: Path) -> Result:
    """Return the result of `job`, from `folder` if it was made before."""
    known = remembered(job, folder)
    if known is not None:
        return known
    result = _replay(job, trace, folder)
    path = _memory(job, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_text(result.to_json())
    part.replace(path)
    return result


def remembered(job: Job, folder: Path) -> Result | None:
    """Return the result of `job` if it was made before."""
    path = _memory(job, folder)
    return Result.from_json(path.read_text()) if path.is_file() else None


def _memory(job: Job, folder: Path) -> Path:
    return folder / "runs" / f"{job.key()}.json"


def _replay(job: Job, trace: Trace, folder: Path) -> Result:
    # Only here: everything else can be read, tested and typed without the simulator.
    from benchmarks.replay import simulator  # noqa: PLC0415

    path, _ = prepared(trace, folder / "traces")
    samples: list[Mapping[str, Any]] = []
    summary = simulator.replay(job, trace, path, folder=folder, telemetry=samples.append)
    return _result(summary, samples)


def _result(summary: Mapping[str, Any], samples: Sequence[Mapping[str, Any]]) -> Result:
    duration_s = summary["duration_ms"] / 1000.0
    moments = tuple(_moment(sample) for sample in samples if sample["kind"] == "periodic")
    counts = [(m.prefill, m.decode) for m in moments]
    return Result(
        requests=summary["num_requests"],
        completed=summary["completed_requests"],
        good=summary["goodput_completed_requests"],
        gpu_s=summary["gpu_hours"] * 3600.0,
        duration_s=duration_s,
        prefill_mean=summary["prefill_worker_seconds"] / duration_s,
        decode_mean=summary["decode_worker_seconds"] / duration_s,
        ttft_s=_quantiles(summary, "ttft"),
        tpot_s=_quantiles(summary, "tpot"),
        changes=sum(one != two for one, two in itertools.pairwise(counts)),
        moments=moments,
    )


def _quantiles(summary: Mapping[str, Any], name: str) -> dict[str, float]:
    keys = {"p50": "median"}
    return {share: summary[f"{keys.get(share, share)}_{name}_ms"] / 1000.0 for share in SHARES}


def _moment(sample: Mapping[str, Any]) -> Moment:
    traffic = sample["traffic"]

    def waiting(role: str) -> int:
        engines = sample[f"{role}_scheduler_metrics"]
        queued: int = sum(engine["waiting_requests"] for engine in engines)
        return queued

    return Moment(
        at_s=sample["sampled_at_ms"] / 1000.0,
        arrivals_rps=traffic["arriving_requests"] / max(1e-9, traffic["duration_s"]),
        prefill=len(sample["active_prefill_ids"]),
        decode=len(sample["active_decode_ids"]),
        starting=len(sample["starting_prefill_ids"]) + len(sample["starting_decode_ids"]),
        waiting_prefill=waiting("prefill"),
        waiting_decode=waiting("decode"),
        ttft_s=traffic["avg_ttft_ms"] / 1000.0 if traffic["ttft_count"] else None,
    )
