"""From the figures of all runs to medians with their spread, and a table of them. Pure."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ALONE = "both ends alone"
CEILING = "ceiling_tokens_per_s"
ENOUGH = 2.0
"""The least speed of both ends alone, over a router's, at which its figures are its own."""
SATURATED = 0.95

Figures = Mapping[str, Mapping[str, Sequence[Mapping[str, float]]]]
"""Load -> target -> one mapping of figures per run."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, least and most of some runs."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Return the spread of at least one value."""
        return cls(statistics.median(values), min(values), max(values))

    def text(self, *, digits: int) -> str:
        """Return median and range."""
        return f"{self.median:.{digits}f} ({self.least:.{digits}f}..{self.most:.{digits}f})"


Row = dict[str, Spread]


def summarise(figures: Figures) -> dict[str, dict[str, Row]]:
    """Return load -> target -> figures over the runs; each run is compared with its own alone."""
    return {
        label: {
            name: _alone(runs) if name == ALONE else _compared(runs, by_target[ALONE])
            for name, runs in by_target.items()
        }
        for label, by_target in figures.items()
    }


def _alone(runs: Sequence[Mapping[str, float]]) -> Row:
    return {key: Spread.of([run[key] for run in runs]) for key in runs[0]}


def _compared(runs: Sequence[Mapping[str, float]], alone: Sequence[Mapping[str, float]]) -> Row:
    pairs = list(zip(runs, alone, strict=True))
    row = _alone(runs)
    for key in ("ttft_p50_ms", "ttft_p99_ms"):
        row[f"added_{key}"] = Spread.of([run[key] - base[key] for run, base in pairs])
    row["alone_times_tokens"] = Spread.of(
        [base[CEILING] / max(run["tokens_per_s"], 1.0) for run, base in pairs]
    )
    row["alone_times_ttft"] = Spread.of(
        [run["ttft_p50_ms"] / max(base["ttft_p50_ms"], 1e-3) for run, base in pairs]
    )
    return row


_COLUMNS = (
    ("TTFT p50, ms", "added_ttft_p50_ms", "ttft_p50_ms", 2),
    ("TTFT p99, ms", "added_ttft_p99_ms", "ttft_p99_ms", 2),
    ("tokens/s", "tokens_per_s", "tokens_per_s", 0),
    ("tokens/s per core", "tokens_per_core_s", "tokens_per_core_s", 0),
    ("RSS, MiB", "rss_mib", "rss_mib", 0),
    ("failed", "failed", "failed", 0),
    ("alone faster: tokens/s", "alone_times_tokens", "", 1),
    ("alone faster: TTFT p50", "alone_times_ttft", "", 1),
)


def table(summary: Mapping[str, Mapping[str, Row]]) -> str:
    """Return the summary as a Markdown table; a router's TTFT is what it added."""
    heads = ["load", "target", *(head for head, *_ in _COLUMNS)]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for label, by_target in summary.items():
        for name, row in by_target.items():
            cells = [
                row[key].text(digits=digits)
                for _, compared, plain, digits in _COLUMNS
                if (key := compared if name != ALONE else plain)
            ]
            cells += ["-"] * (len(_COLUMNS) - len(cells))
            lines.append(f"| {label} | {name} | {' | '.join(cells)} |")
    lines.append(f"(TTFT of `{ALONE}`: its own; of a router: what it added)")
    return "\n".join(lines)


def _busy(row: Row) -> float:
    """Return the share of its core that a router used."""
    return row["tokens_per_s"].median / max(row["tokens_per_core_s"].median, 1.0)


def too_slow(summary: Mapping[str, Mapping[str, Row]]) -> list[str]:
    """Return a sentence for each load whose two ends were not fast enough for some router."""
    return [
        f"{label}, {name}: alone both ends are only {row['alone_times_tokens'].median:.1f} times"
        f" as fast; the router's core was {_busy(row):.0%} busy: "
        + ("it was the slowest all the same" if _busy(row) >= SATURATED else "figures not its own")
        for label, by_target in summary.items()
        for name, row in by_target.items()
        if name != ALONE and row["alone_times_tokens"].median < ENOUGH
    ]
