"""The live table: what the client measures beside what the operator does about it."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from rich.table import Table
from rich.text import Text

from benchmarks.load.plan import Traffic
from benchmarks.load.record import Record, Tally, quantile, tally
from e2e.demo.story import Sight
from tandem_operator.core.role import Role
from tandem_operator.core.slo import Slo

WINDOW_S = 20.0


@dataclass(slots=True)
class Dashboard:
    """The last seconds of the running phase; `slo` is the one in force."""

    slo: Slo
    traffic: Traffic | None = None
    started_s: float = 0.0
    phase_ends_s: float = 0.0
    until: str | None = None
    sight: Sight | None = None
    in_flight: Callable[[], int] = lambda: 0
    now: Callable[[], float] = time.time
    _recent: deque[Record] = field(default_factory=deque)

    def begin(self, traffic: Traffic, *, slo: Slo, until: str | None = None) -> None:
        """Turn to another stretch of traffic; `until` says what ends it, if not time alone."""
        self.traffic, self.slo, self.until = traffic, slo, until
        now = self.now()
        self.started_s = self.started_s or now
        self.phase_ends_s = now + traffic.duration_s

    def add(self, record: Record) -> None:
        """Take in a request that ended."""
        self._recent.append(record)

    def figures(self) -> Tally:
        """Return the tally of the requests that ended in the last seconds."""
        return tally([(record, self.slo) for record in self._last_seconds()])

    def _last_seconds(self) -> list[Record]:
        now = self.now()
        while self._recent and self._recent[0].ended_s < now - WINDOW_S:
            self._recent.popleft()
        return list(self._recent)

    def rows(self) -> list[tuple[str, str, bool | None]]:
        """Return name, value and whether the SLO is kept (`None`: the row does not tell)."""
        figures = self.figures()
        span_s = max(1.0, min(WINDOW_S, self.now() - self.started_s))
        prompt = quantile((float(record.prompt_tokens) for record in self._last_seconds()), 0.5)
        ttft_bound_s = self.slo.ttft_bound_s(prompt or 0.0)
        return [
            (
                "requests",
                f"{figures.requests / span_s:.1f}/s ended, {self.in_flight()} in flight",
                None,
            ),
            (
                "TTFT p50 / p95",
                _latency(figures.ttft_p50_s, figures.ttft_p95_s, bound_s=ttft_bound_s),
                _keeps(figures.ttft_p95_s, ttft_bound_s),
            ),
            (
                "TPOT p50 / p95",
                _latency(figures.tpot_p50_s, figures.tpot_p95_s, bound_s=self.slo.tpot_s),
                _keeps(figures.tpot_p95_s, self.slo.tpot_s),
            ),
            (
                "attainment",
                f"{_percent(figures.attainment)} (wanted {_percent(self.slo.attainment)})",
                None if figures.attainment is None else figures.attainment >= self.slo.attainment,
            ),
            ("goodput", f"{figures.good / span_s:.1f} good requests/s", None),
            *((f"{role} ready / desired", self._fleet(role), None) for role in Role),
            ("last decision", self.sight.sentence if self.sight else "", None),
        ]

    def _fleet(self, role: Role) -> str:
        if self.sight is None:
            return "unknown"
        fleet = self.sight.fleets[role]
        return f"{fleet.ready} / {fleet.desired}"

    @property
    def title(self) -> str:
        """Return the phase, and how far it has come."""
        traffic = self.traffic
        if traffic is None:
            return "load"
        left = self.until or f"{max(0.0, self.phase_ends_s - self.now()):.0f} s left"
        mix = f"{traffic.prompt_tokens} tokens in, {traffic.output_tokens} out"
        return f"{traffic.name}: {traffic.rate_rps:g} requests/s, {mix}; {left}"

    def __rich__(self) -> Table:
        """Return a table for a terminal."""
        table = Table(title=self.title, title_justify="left", show_header=False, min_width=76)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(min_width=54)
        styles = {True: "green", False: "red", None: ""}
        for name, value, kept in self.rows():
            table.add_row(name, Text(value, style=styles[kept]))
        return table

    def line(self) -> str:
        """Return one line for a log."""
        return f"[{self.title}] " + "; ".join(f"{name} {value}" for name, value, _ in self.rows())


def _latency(p50_s: float | None, p95_s: float | None, *, bound_s: float) -> str:
    if p50_s is None or p95_s is None:
        return f"none yet (bound {1000 * bound_s:.0f} ms)"
    return f"{1000 * p50_s:.0f} / {1000 * p95_s:.0f} ms (bound {1000 * bound_s:.0f} ms)"


def _keeps(value_s: float | None, bound_s: float) -> bool | None:
    return None if value_s is None else value_s <= bound_s


def _percent(share: float | None) -> str:
    return "unknown" if share is None else f"{100 * share:.1f} %"
