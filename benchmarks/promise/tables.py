"""Results as lines and tables for a person."""

from collections.abc import Sequence

from benchmarks.promise.kept import Row
from benchmarks.promise.scores import Line, Result

HEAD = "scored after the first 15 minutes: attainment @ GPU-hours (replica changes per hour)"


def line(result: Result) -> str:
    """Return a case's attainment, GPU-hours and changes by policy; `!` marks a missed target."""
    case = result.case
    cells = [f"{name} {_cell(row, case.target)}" for name, row in result.rows.items()]
    ratio = result.cost_ratio("fixed")
    cost = "" if ratio is None else f"  x{ratio:.2f} of fixed"
    return f"{case.name:17} {case.target:<5g} " + "  ".join(cells) + cost


def _cell(row: Row | None, target: float) -> str:
    if row is None:
        return "none"
    missed = "!" if row["attainment"] < target else " "
    cell = f"{row['attainment']:.4f}{missed}@ {row['gpu_hours']:.2f}"
    fleet = str(row["policy"]).removeprefix("static ")
    return (
        f"{fleet} {cell}" if fleet != row["policy"] else f"{cell} ({row['changes_per_hour']:.0f})"
    )


def verdicts(lines: Sequence[Line]) -> str:
    """Return the table of requirements, goals and measured values."""
    rows = ["| after the first 15 minutes | must | goal | measured | must | goal |"]
    rows.append("|---|---|---|---|---|---|")
    for each in lines:
        kept = " | ".join(_verdict(value) for value in (each.keeps_must, each.keeps_goal))
        rows.append(f"| {each.what} | {each.must} | {each.goal} | {each.measured} | {kept} |")
    return "\n".join(rows)


def _verdict(kept: bool | None) -> str:
    return "" if kept is None else "kept" if kept else "missed"


def by_case(results: Sequence[Result]) -> str:
    """Return attainment @ GPU-hours: a row for each case, a column for each policy."""
    names = list(dict.fromkeys(name for result in results for name in result.rows))
    rows = ["| case | target | start-up | replicas | " + " | ".join(names) + " |"]
    rows.append("|---|---|---|---|" + "---|" * len(names))
    for result in results:
        case = result.case
        size = "" if case.replicas is None else f"{case.replicas:.2g}"
        cells = [
            _cell(result.rows[name], case.target) if name in result.rows else "" for name in names
        ]
        rows.append(
            f"| {case.name} | {case.target:g} | {case.cold_start_s:g} s | {size} | "
            + " | ".join(cells)
            + " |"
        )
    return "\n".join(rows)
