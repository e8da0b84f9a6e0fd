"""Profiles of the simulated engines, fitted to the simulator's own timing."""

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np
from dynamo._internal.ais import create_session

from benchmarks.replay.setup import TIMINGS, Coefficients, Profile, Timing, estimator

FITTED_PROMPTS = (500, 6500)
FITTED_CONTEXTS = (350, 6000)
MOST_FITTED_ITL_MS = 30.0


def measured_table(folder: Path) -> Path:
    """The simulator's table of the measured H200, from the planner's own test data."""
    path = folder / "h200-measured.npz"
    if not path.exists():
        # It drags the whole planner in.
        from dynamo.mocker.utils.planner_profiler_perf_data_converter import (  # noqa: PLC0415
            convert_profile_results_to_npz,
        )

        part = folder / "h200-measured.part.npz"
        convert_profile_results_to_npz(str(_measurements()), str(part))
        part.replace(path)
    return path


@cache
def profile_of(timing: str) -> Profile:
    """The profile of one timing."""
    chosen = TIMINGS[timing]
    return _measured() if chosen.measured else _estimated(chosen)


def _estimated(timing: Timing) -> Profile:
    prefill, decode = (
        create_session(config=estimator(timing, role)) for role in ("prefill", "decode")
    )
    prompts = [(n, prefill.predict_prefill(1, n, 0)) for n in timing.prompt_grid]
    steps = [
        (batch, context, decode.predict_decode(batch, context, 2))
        for context in timing.context_grid
        for batch in timing.batch_grid
    ]
    return Profile(_fit_service(prompts), _fit_steps(steps))


def _measured() -> Profile:
    folder = _measurements()
    prefill = np.load(folder / "selected_prefill_interpolation" / "raw_data.npz")
    decode = np.load(folder / "selected_decode_interpolation" / "raw_data.npz")
    prompts = [
        (float(n), float(ms))
        for n, ms in zip(prefill["prefill_isl"], prefill["prefill_ttft"], strict=True)
        if FITTED_PROMPTS[0] < n < FITTED_PROMPTS[1]
    ]
    capacity = float(decode["max_kv_tokens"][0])
    steps = [
        (float(use) * capacity / float(context), float(context), float(ms))
        for use, context, ms in zip(
            decode["x_kv_usage"], decode["y_context_length"], decode["z_itl"], strict=True
        )
        if FITTED_CONTEXTS[0] <= context <= FITTED_CONTEXTS[1] and ms < MOST_FITTED_ITL_MS
    ]
    return Profile(_fit_service(prompts), _fit_steps(steps))


def _measurements() -> Path:
    folder = Path(next(iter(import_module("dynamo").__path__)))
    return folder / "planner" / "tests" / "data" / "profiling_results" / "H200_TP1P_TP1D"


def _fit_service(prompts: Sequence[tuple[float, float]]) -> Coefficients:
    return _least_squares([((1.0, n, n * n), ms) for n, ms in prompts])


def _fit_steps(steps: Sequence[tuple[float, float, float]]) -> Coefficients:
    return _least_squares([((1.0, b, b * context), ms) for b, context, ms in steps])


def _least_squares(rows: list[tuple[Coefficients, float]]) -> Coefficients:
    """Seconds per feature, by relative error."""
    features = np.array([[value / ms for value in row] for row, ms in rows])
    found, *_ = np.linalg.lstsq(features, np.ones(len(rows)), rcond=None)
    first, second, third = (float(value) / 1000.0 for value in found)
    return first, second, third
