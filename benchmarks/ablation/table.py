"""Results as tables: what is lost without a step, by kind of trace and by trace."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.ablation.parts import PARTS, WHOLE
from benchmarks.replay.recipes import RECIPES

Results = Mapping[str, Mapping[str, Mapping[str, Any]]]
KINDS = ("jump", "calm", "flat")


def by_kind(results: Results) -> str:
    """A step a line: mean points of attainment and mean percent of goodput per GPU without it."""
    heads = " | ".join(f"{kind}: attainment, good/GPU-s, worst" for kind in KINDS)
    lines = [f"| without | then | {heads} |", "|---|---|" + "---|" * len(KINDS)]
    for part, rows in results.items():
        cells = [_kind(results[WHOLE], rows, kind, whole=part == WHOLE) for kind in KINDS]
        lines.append(f"| {part} | {PARTS[part].without} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _kind(
    base: Mapping[str, Any], rows: Mapping[str, Mapping[str, Any]], kind: str, *, whole: bool
) -> str:
    names = [name for name in rows if RECIPES[name].kind == kind]
    if not names:
        return ""
    attainment = _mean([rows[name]["attainment"] for name in names])
    worst = min(rows[name]["attainment"] for name in names)
    if whole:
        goodput = _mean([rows[name]["good_per_gpu_s"] for name in names])
        return f"{attainment:.3f}, {goodput:.2f}, {worst:.3f}"
    points = 100.0 * (attainment - _mean([base[name]["attainment"] for name in names]))
    percent = 100.0 * (
        _mean([rows[n]["good_per_gpu_s"] / base[n]["good_per_gpu_s"] for n in names]) - 1.0
    )
    return f"{points:+.1f}, {percent:+.1f} %, {worst:.3f}"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def by_trace(results: Results, names: Sequence[str]) -> str:
    """Attainment @ good requests per GPU-second, a step a line, a trace a column."""
    lines = ["| without | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
    for part, rows in results.items():
        cells = [
            f"{rows[name]['attainment']:.3f} @ {rows[name]['good_per_gpu_s']:.2f}" for name in names
        ]
        lines.append(f"| {part} | " + " | ".join(cells) + " |")
    return "\n".join(lines)
