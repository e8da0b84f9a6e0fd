"""The results of the suite, as a table for people and as records for programs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.replay.recipes import RECIPES, Recipe
from benchmarks.replay.search import Found
from benchmarks.replay.simulate import Result

FIELDS = (
    "trace",
    "kind",
    "unseen",
    "policy",
    "chosen",
    "startup_s",
    "attainment",
    "good_per_gpu_s",
    "gpu_hours",
    "of_clairvoyant",
    "ttft_p95_s",
    "tpot_p95_s",
    "changes",
)


@dataclass(frozen=True, slots=True)
class Row:
    """One policy on one trace; `of_clairvoyant`: its good requests per GPU-second as a share."""

    trace: str
    policy: str
    startup_s: float
    found: Found
    of_clairvoyant: float | None

    @property
    def recipe(self) -> Recipe:
        """Return the recipe of the trace."""
        return RECIPES[self.trace]

    @property
    def result(self) -> Result:
        """Return the figures of the run."""
        return self.found.result

    def record(self) -> dict[str, Any]:
        """Return the row for JSON and CSV."""
        result = self.result
        return {
            "trace": self.trace,
            "kind": self.recipe.kind,
            "unseen": self.recipe.unseen,
            "policy": self.policy,
            "chosen": self.found.chosen,
            "startup_s": self.startup_s,
            "requests": result.requests,
            "completed": result.completed,
            "good": result.good,
            "attainment": round(result.attainment, 4),
            "good_per_gpu_s": round(result.good_per_gpu_s, 4),
            "gpu_hours": round(result.gpu_s / 3600.0, 4),
            "of_clairvoyant": self.of_clairvoyant and round(self.of_clairvoyant, 3),
            "ttft_p95_s": round(result.ttft_s["p95"], 4),
            "tpot_p95_s": round(result.tpot_s["p95"], 5),
            "changes": result.changes,
        }

    def line(self) -> str:
        """Return the row for a terminal."""
        result, share = self.result, self.of_clairvoyant
        of_bound = "" if share is None else f"{share:5.2f} of the bound"
        return (
            f"{self.trace:12s} {self.startup_s:4.0f} s  {self.policy:15s} "
            f"{result.attainment:.3f} @ {result.good_per_gpu_s:6.3f}  "
            f"{result.gpu_s / 3600.0:6.2f} GPU-h {of_bound}  {self.found.chosen or ''}"
        )


def table(rows: Sequence[Row]) -> str:
    """Return attainment @ good requests per GPU-second: lines of traces, columns of policies."""
    policies = list(dict.fromkeys(row.policy for row in rows))
    parts = []
    for startup_s in dict.fromkeys(row.startup_s for row in rows):
        some = [row for row in rows if row.startup_s == startup_s]
        lines = [
            f"| start-up {startup_s:g} s | " + " | ".join(policies) + " |",
            "|---|" + "---|" * len(policies),
        ]
        for name in dict.fromkeys(row.trace for row in some):
            cells = (row_of(some, name, policy) for policy in policies)
            lines.append(f"| {name} | " + " | ".join((c and _cell(c)) or "" for c in cells) + " |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def row_of(rows: Iterable[Row], trace: str, policy: str) -> Row | None:
    """Return the row of one policy on one trace."""
    return next((row for row in rows if (row.trace, row.policy) == (trace, policy)), None)


def _cell(row: Row) -> str:
    chosen = f" ({row.found.chosen.rpartition(' ')[2]})" if row.found.chosen else ""
    return f"{row.result.attainment:.3f} @ {row.result.good_per_gpu_s:.2f}{chosen}"
