"""Calls of NVIDIA's simulator with one policy. Only `profiles` imports the simulator too."""

import math
from collections.abc import Callable, Mapping
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dynamo._core import run_mocker_trace_replay

from benchmarks.replay.clairvoyant import Clairvoyant
from benchmarks.replay.policy import Tandem
from benchmarks.replay.profiles import measured_table
from benchmarks.replay.setup import TIMINGS, Setup, engine_args, estimator
from benchmarks.replay.simulate import SAMPLE_MS, Job
from tandem_operator.sim.traces.trace import BLOCK_TOKENS, Trace

Telemetry = Callable[[Mapping[str, Any]], None]
TELEMETRY_MS = 1000.0


def replay(
    job: Job, trace: Trace, path: Path, *, folder: Path, telemetry: Telemetry
) -> Mapping[str, Any]:
    """Return the simulator's summary of `job` on the trace in `path`."""
    keep = _thinned(telemetry)
    if job.policy == "dynamo":
        return _planner(job, path, folder, keep)
    if job.policy == "static":
        return _native(job, path, folder, keep, policy=None)
    if job.policy == "clairvoyant":
        return _native(job, path, folder, keep, policy=Clairvoyant(job.options["schedule"]))
    if job.policy == "tandem":
        tandem = Tandem(trace, job.setup)

        def both(sample: Mapping[str, Any]) -> None:
            tandem.telemetry(sample)
            keep(sample)

        return _native(job, path, folder, both, policy=tandem)
    raise ValueError(f"no policy is called {job.policy!r}")


def _thinned(telemetry: Telemetry) -> Telemetry:
    every = math.floor(SAMPLE_MS / TELEMETRY_MS)
    seen = 0

    def keep(sample: Mapping[str, Any]) -> None:
        nonlocal seen
        if seen % every == 0:
            telemetry(sample)
        seen += 1

    return keep


def _arguments(job: Job, folder: Path) -> dict[str, Any]:
    setup = job.setup
    measured = measured_table(folder) if TIMINGS[setup.timing].measured else folder
    prefill, decode = job.options.get("fleet", setup.start)
    return {
        "prefill_engine_args": engine_args(setup, "prefill", measured=measured),
        "decode_engine_args": engine_args(setup, "decode", measured=measured),
        "num_prefill_workers": prefill,
        "num_decode_workers": decode,
        "trace_block_size": BLOCK_TOKENS,
        "sla_ttft_ms": setup.ttft_s * 1000.0,
        "sla_itl_ms": setup.itl_s * 1000.0,
    }


def _native(
    job: Job, path: Path, folder: Path, telemetry: Telemetry, *, policy: object | None
) -> Mapping[str, Any]:
    result = run_mocker_trace_replay(
        [str(path)],
        scaling_policy=policy,
        telemetry_callback=telemetry,
        telemetry_sample_interval_ms=TELEMETRY_MS,
        **_arguments(job, folder),
    )
    return dict(result.summary)


def _planner(job: Job, path: Path, folder: Path, telemetry: Telemetry) -> Mapping[str, Any]:
    # Seconds to import, and only this policy needs it.
    from dynamo.replay.api import TelemetryOptions, run_trace_replay  # noqa: PLC0415

    setup = job.setup
    config = {
        "mode": "disagg",
        "ttft_ms": setup.ttft_s * 1000.0,
        "itl_ms": setup.itl_s * 1000.0,
        "max_gpu_budget": setup.gpu_budget,
        "report_interval_hours": None,
        **job.options["planner"],
    }
    metadata = {role: _known(setup, role) for role in ("prefill", "decode")}
    arguments = _arguments(job, folder)
    # The planner writes reports into the folder that it runs in.
    with TemporaryDirectory() as reports, chdir(reports):
        report = run_trace_replay(
            str(path),
            planner_config=config,
            performance_model_metadata=metadata if TIMINGS[setup.timing].measured else None,
            telemetry_options=TelemetryOptions(sample_interval_ms=TELEMETRY_MS, callback=telemetry),
            **arguments,
        )
    return dict(report.summary)


def _known(setup: Setup, role: str) -> dict[str, Any]:
    """Return the planner's description of engines whose timing is a table."""
    return {"provider": "ais", "config": estimator(TIMINGS[setup.timing], role)}
