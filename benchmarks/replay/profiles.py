"""The simulator's own timing of its engines, and profiles fitted to it."""

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np
from dynamo._internal.ais import create_session

from benchmarks.replay.environment import cache_directory
from benchmarks.replay.setup import TIMINGS, Coefficients, Profile, Timing, estimator

Milliseconds = Callable[[int, int], float]


@cache
def profile_of(timing: str) -> Profile:
    """Return the profile of one timing, for the policies that may know it."""
    chosen = TIMINGS[timing]
    prefill_ms, step_ms = timing_of(chosen)
    prompts = [(n, prefill_ms(1, n)) for n in chosen.prompt_grid]
    steps = [
        (batch, context, step_ms(batch, context))
        for context in chosen.context_grid
        for batch in chosen.batch_grid
    ]
    return Profile(_fit_service(prompts), _fit_steps(steps))


def timing_of(timing: Timing) -> tuple[Milliseconds, Milliseconds]:
    """Return the ms of a prefill pass (batch, prompt) and of a decode step (batch, context)."""
    if timing.measured:
        return _table(measured_table(cache_directory() / "replay"))
    prefill, decode = (
        create_session(config=estimator(timing, role)) for role in ("prefill", "decode")
    )
    return (
        lambda batch, tokens: float(prefill.predict_prefill(batch, tokens, 0)),
        lambda batch, context: float(decode.predict_decode(batch, context, 2)),
    )


def measured_table(folder: Path) -> Path:
    """Return the simulator's table of the measured H200, from the planner's own test data.

    It is no measurement but a plane that NVIDIA's converter lays through the measured points.
    """
    path = folder / "h200-measured.npz"
    if not path.exists():
        # It drags the whole planner in.
        from dynamo.mocker.utils.planner_profiler_perf_data_converter import (  # noqa: PLC0415
            convert_profile_results_to_npz,
        )

        package = Path(next(iter(import_module("dynamo").__path__)))
        data = package / "planner" / "tests" / "data" / "profiling_results" / "H200_TP1P_TP1D"
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / "h200-measured.part.npz"
        convert_profile_results_to_npz(str(data), str(part))
        part.replace(path)
    return path


def _table(path: Path) -> tuple[Milliseconds, Milliseconds]:
    """Return straight lines between the points of a table, as the simulator reads it."""
    from scipy.interpolate import RegularGridInterpolator  # noqa: PLC0415

    with np.load(path) as found:
        prompts, prompt_ms = found["prefill_isl"], found["prefill_ttft_ms"]
        axes = (found["decode_active_kv_tokens"], found["decode_context_length"])
        steps = RegularGridInterpolator(axes, found["decode_itl"])
    most_kv, most_context = axes[0][-1], axes[1][-1]

    def prefill_ms(batch: int, tokens: int) -> float:
        return float(np.interp(batch * tokens, prompts, prompt_ms))

    def step_ms(batch: int, context: int) -> float:
        return float(steps((min(batch * context, most_kv), min(context, most_context))))

    return prefill_ms, step_ms


def _fit_service(prompts: Sequence[tuple[float, float]]) -> Coefficients:
    return _least_squares([((1.0, n, n * n), ms) for n, ms in prompts])


def _fit_steps(steps: Sequence[tuple[float, float, float]]) -> Coefficients:
    return _least_squares([((1.0, b, b * context), ms) for b, context, ms in steps])


def _least_squares(rows: list[tuple[Coefficients, float]]) -> Coefficients:
    """Return the seconds per feature, by relative error."""
    features = np.array([[value / ms for value in row] for row, ms in rows])
    found, *_ = np.linalg.lstsq(features, np.ones(len(rows)), rcond=None)
    first, second, third = (float(value) / 1000.0 for value in found)
    return first, second, third
