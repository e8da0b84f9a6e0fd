"""Results as lines for a person."""

from collections.abc import Mapping

from benchmarks.promise.kept import Row
from benchmarks.promise.work import Done

HEAD = "after the first 15 minutes: attainment @ GPU-hours (replica changes per hour)"


def line(done: Done) -> str:
    """A case: each policy's attainment, GPU-hours and changes; `!` where the target is missed."""
    case = done.case
    cells = [f"{name} {_cell(row, case.target)}" for name, row in done.rows.items()]
    return f"{case.name:17} {case.target:<5g} " + "  ".join(cells) + _ratio(done.rows)


def _cell(row: Row | None, target: float) -> str:
    if row is None:
        return "none reaches it"
    missed = "!" if row["attainment"] < target else " "
    cell = f"{row['attainment']:.4f}{missed}@ {row['gpu_hours']:.2f}"
    fleet = str(row["policy"]).removeprefix("static ")
    return (
        f"{fleet} {cell}" if fleet != row["policy"] else f"{cell} ({row['changes_per_hour']:.0f})"
    )


def _ratio(rows: Mapping[str, Row | None]) -> str:
    """Tandem's GPU-hours over those of the cheapest fixed fleet that reaches the target."""
    own, fixed = rows.get("tandem"), rows.get("fixed")
    if own is None or fixed is None:
        return ""
    return f"  x{own['gpu_hours'] / fixed['gpu_hours']:.2f} of fixed"
