"""Results as tables: a step a line, and the minutes in which attainment was lost."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.beyond.steps import STEPS

Results = Mapping[str, Mapping[str, Mapping[str, Any]]]
GROUPS = {"A": "A..A8", "U": "U1..U5 (unseen)", "V": "V1..V16 (drawn)"}
BOUNDS = ("bound", "bound-all")
LEAST_LOST = 10


def ladder(results: Results) -> str:
    """Return attainment @ goodput per GPU and the clairvoyant's share: a group's mean and worst."""
    groups = {letter: title for letter, title in GROUPS.items() if _most(results, letter)}
    lines = ["| step | what | " + " | ".join(groups.values()) + " |"]
    lines.append("|---|---|" + "---|" * len(groups))
    for step, rows in results.items():
        cells = [_group(results, rows, letter) for letter in groups]
        lines.append(f"| {step} | {STEPS[step].what} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _group(results: Results, rows: Mapping[str, Mapping[str, Any]], letter: str) -> str:
    names = [name for name in rows if name.startswith(letter)]
    if not names:
        return ""
    mean, worst = _mean_and_worst([rows[name]["attainment"] for name in names])
    goodput, _ = _mean_and_worst([rows[name]["good_per_gpu_s"] for name in names])
    cell = f"{mean:.3f} @ {goodput:.2f}, worst {worst:.3f}"
    for bound in BOUNDS:
        if all(name in results.get(bound, {}) for name in names):
            shares = [share_of(results, bound, rows, name) for name in names]
            cell += "; {:.2f}, worst {:.2f}".format(*_mean_and_worst(shares))
    return cell + (
        f" (on {len(names)} of {_most(results, letter)})"
        if len(names) < _most(results, letter)
        else ""
    )


def _most(results: Results, letter: str) -> int:
    return max(sum(name.startswith(letter) for name in rows) for rows in results.values())


def _mean_and_worst(values: Sequence[float]) -> tuple[float, float]:
    return sum(values) / len(values), min(values)


def share_of(
    results: Results, bound: str, rows: Mapping[str, Mapping[str, Any]], name: str
) -> float:
    """Return the goodput per GPU as a share of a clairvoyant's on the same trace."""
    share: float = rows[name]["good_per_gpu_s"] / results[bound][name]["good_per_gpu_s"]
    return share


def by_trace(results: Results) -> str:
    """Return attainment @ goodput per GPU: a line for each trace, a column for each step."""
    names = list(dict.fromkeys(name for rows in results.values() for name in rows))
    lines = ["| trace | " + " | ".join(results) + " |", "|---|" + "---|" * len(results)]
    for name in names:
        cells = [
            f"{row['attainment']:.3f} @ {row['good_per_gpu_s']:.2f}" if row else ""
            for row in (rows.get(name) for rows in results.values())
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def lost(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the minutes of each trace that lost most."""
    lines = [
        "| trace | minute | requests | late TTFT | late TPOT alone | overflowed | P | D |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        for minute in row["minutes"]:
            if minute["late_ttft"] + minute["late_tpot"] >= LEAST_LOST:
                ready = minute["ready"]
                lines.append(
                    f"| {name} | {minute['minute']} | {minute['requests']} "
                    f"| {minute['late_ttft']} | {minute['late_tpot']} | {minute['overflowed']} "
                    f"| {ready['prefill']:.1f} | {ready['decode']:.1f} |"
                )
    return "\n".join(lines)
