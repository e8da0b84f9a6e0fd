"""The loss without a step, by family, beside the change that chance alone makes there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.ablation.cases import FAMILIES
from benchmarks.ablation.parts import CHANCE, PARTS, WHOLE
from benchmarks.promise.kept import Row

Rows = Mapping[tuple[str, str], Row]


@dataclass(frozen=True, slots=True)
class Change:
    """Means over a family: points of attainment, percent of good requests per GPU-second."""

    points: float
    percent: float

    def __str__(self) -> str:
        return f"{self.points:+.2f}, {self.percent:+.1f} %"


def change(rows: Rows, step: str, family: str) -> Change | None:
    """Return what a family loses or wins without the step; `None` where it was not run."""
    names = [case.name for case in FAMILIES[family]]
    pairs = [(rows.get((name, step)), rows.get((name, WHOLE))) for name in names]
    known = [(row, whole) for row, whole in pairs if row is not None and whole is not None]
    if len(known) < len(names):
        return None
    return Change(
        points=_mean([100.0 * (row["attainment"] - whole["attainment"]) for row, whole in known]),
        percent=_mean(
            [
                100.0 * (row["good_per_gpu_s"] / whole["good_per_gpu_s"] - 1.0)
                for row, whole in known
            ]
        ),
    )


def chance(rows: Rows, family: str) -> Change | None:
    """Return the most that chance changes: a start-up of a second more or less is no cause."""
    found = [each for step in CHANCE if (each := change(rows, step, family)) is not None]
    if not found:
        return None
    return Change(
        points=max(abs(each.points) for each in found),
        percent=max(abs(each.percent) for each in found),
    )


def worth(rows: Rows, step: str) -> list[str]:
    """Return the families that lose more attainment or goodput than chance without the step."""
    found = []
    for family in FAMILIES:
        lost, luck = change(rows, step, family), chance(rows, family)
        if lost is None or luck is None:
            continue
        if lost.points < -luck.points or lost.percent < -luck.percent:
            found.append(family)
    return found


def table(rows: Rows, steps: Sequence[str]) -> str:
    """Return the table: a line for each step, a column for each family."""
    lines = [
        "| without | then | " + " | ".join(FAMILIES) + " | worth more than chance |",
        "|---|---|" + "---|" * (len(FAMILIES) + 1),
        f"| {WHOLE} | {PARTS[WHOLE].without} | "
        + " | ".join(_figures(rows, family) for family in FAMILIES)
        + " | |",
        "| chance | a start-up takes a second more or less | "
        + " | ".join(_cell(chance(rows, family)) for family in FAMILIES)
        + " | |",
    ]
    lines += [
        f"| {step} | {PARTS[step].without} | "
        + " | ".join(_cell(change(rows, step, family)) for family in FAMILIES)
        + f" | {', '.join(worth(rows, step)) or '-'} |"
        for step in steps
        if step not in (WHOLE, *CHANCE)
    ]
    return "\n".join(lines)


def _figures(rows: Rows, family: str) -> str:
    found = [rows.get((case.name, WHOLE)) for case in FAMILIES[family]]
    known = [row for row in found if row is not None]
    if not known:
        return "-"
    attainment = _mean([row["attainment"] for row in known])
    return f"{attainment:.4f}, {_mean([row['good_per_gpu_s'] for row in known]):.2f}"


def _cell(found: Change | None) -> str:
    return "-" if found is None else str(found)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
