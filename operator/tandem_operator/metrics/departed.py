"""The last reports of routers that are gone, and the time since which all reports are complete.

The clients of a router that is gone are with the others now. Without its report, the earlier load
would look like that of the others alone, and the move of clients like a jump. A router that opens
while others are open takes nothing from the history, because earlier clients reached the others.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tandem_operator.core.observation import RouterReport
from tandem_operator.core.observe.arrivals import HISTORY_S
from tandem_operator.metrics.source import RouterTarget, Targets

SAME_START_S = 5.0
"""The largest shift of a router's clock between two looks."""
STAMP_S = 1.0
"""The API server's times are whole seconds."""
KEPT_ROWS = 26_000
"""Rows of all gone routers of a pool: ten whole histories. The oldest make room."""
SILENT_S = 15.0
"""A router that ended longer than this after its last report left a hole: looks are 5 s apart."""


@dataclass(frozen=True, slots=True)
class _Process:
    """One router process: its last report, and when it took new clients, as far as it is known."""

    report: RouterReport
    opened_s: float | None
    closed_s: float | None

    def is_of(self, report: RouterReport) -> bool:
        """Return whether the report is of this process: its container may have been restarted."""
        return abs(report.started_s - self.report.started_s) < SAME_START_S

    def open_at(self, at_s: float) -> bool:
        """Return whether it took new clients then."""
        return (
            self.opened_s is not None
            and self.opened_s <= at_s
            and (self.closed_s is None or self.closed_s >= at_s - STAMP_S)
        )

    def seen_as(self, target: RouterTarget | None) -> "_Process":
        """Return the process with the present state of its pod."""
        if target is None:
            return self
        opened_s = self.opened_s if target.opened_s is None else target.opened_s
        return replace(self, opened_s=opened_s, closed_s=target.closed_s)

    @property
    def rows(self) -> int:
        """Return the number of rows of its report, as a measure of its size; at least one."""
        report = self.report
        return 1 + len(report.arrivals) + len(report.best_effort) + len(report.finished)

    @property
    def reported_all(self) -> bool:
        """Return whether its last report came after its last client."""
        if self.opened_s is None:
            return True
        return self.closed_s is not None and self.report.sampled_s >= self.closed_s


class Departed:
    """The last report of each router, for as long as its history counts."""

    def __init__(self) -> None:
        self._pools: dict[tuple[str, str], _Watched] = {}

    def add(
        self, targets: Targets, answers: Sequence[RouterReport], *, now_s: float
    ) -> tuple[RouterReport, ...]:
        """Return the answers, and after them those of routers that no pass waits for any more.

        A target that did not answer is missing, not gone: nothing is added for it.
        """
        watched = self._pools.setdefault((targets.namespace, targets.pool), _Watched(now_s))
        return watched.look({r.pod: r for r in targets.routers}, answers, now_s=now_s)

    def forget(self, *, namespace: str, pool: str) -> None:
        """Drop what is kept of a pool that is gone."""
        self._pools.pop((namespace, pool), None)


@dataclass(slots=True)
class _Watched:
    """The routers of one pool, as this operator saw them come and go.

    Attributes:
        watched_from_s: time of the first look. Routers that had gone before are not known.
        whole_from_s: time since which nothing is missing from their reports.
        current: by pod, the awaited processes that have answered.
        gone: processes that are not awaited any more.
        unheard: by pod that never answered, the time since which it takes clients.
    """

    watched_from_s: float
    whole_from_s: float = 0.0
    current: dict[str, _Process] = field(default_factory=dict)
    gone: list[_Process] = field(default_factory=list)
    unheard: dict[str, float] = field(default_factory=dict)

    def look(
        self, awaited: Mapping[str, RouterTarget], answers: Sequence[RouterReport], *, now_s: float
    ) -> tuple[RouterReport, ...]:
        """Return the reports of all routers of the pool, the gone ones last."""
        # The clock was set back.
        self.watched_from_s = min(self.watched_from_s, now_s)
        self.whole_from_s = min(self.whole_from_s, now_s)
        self.current = {pod: each.seen_as(awaited.get(pod)) for pod, each in self.current.items()}
        answered = [
            self._hear(report, awaited.get(report.router), now_s=now_s) for report in answers
        ]
        for pod in self.current.keys() - awaited.keys():
            self._end(self.current.pop(pod), now_s=now_s)
        self._miss(awaited.values(), now_s=now_s)
        self.gone = [each for each in self.gone if now_s - each.report.sampled_s <= HISTORY_S]
        self._make_room()
        ended = [_ended(each.report, now_s) for each in self.gone]
        return tuple(_since(report, self.whole_from_s) for report in (*answered, *ended))

    def _make_room(self) -> None:
        """Limit the kept reports: a router can call itself a new one at each look."""
        rows = sum(each.rows for each in self.gone)
        while rows > KEPT_ROWS:
            oldest = self.gone.pop(0)
            rows -= oldest.rows
            self.whole_from_s = max(self.whole_from_s, oldest.report.sampled_s)

    def _hear(
        self, report: RouterReport, target: RouterTarget | None, *, now_s: float
    ) -> RouterReport:
        pod = report.router
        known = self.current.pop(pod, None) or self._back(report)
        if known is not None and known.is_of(report):
            known = known.seen_as(target)
            report = replace(report, joined=known.report.joined)
        else:
            if known is not None:
                self._end(known, now_s=now_s)
            known = _Process(report, None, None).seen_as(target)
            report = replace(report, joined=self._joins(known.opened_s))
        self.current[pod] = replace(known, report=report)
        return report

    def _back(self, report: RouterReport) -> _Process | None:
        """Return the report's process if it was out of sight for a while."""
        for each in self.gone:
            if each.report.router == report.router and each.is_of(report):
                self.gone.remove(each)
                return each
        return None

    def _joins(self, opened_s: float | None) -> bool:
        """Return whether a router that opened then joined others that had all clients."""
        if opened_s is None or opened_s < self.watched_from_s - STAMP_S:
            return False
        return any(other.open_at(opened_s) for other in (*self.current.values(), *self.gone))

    def _end(self, process: _Process, *, now_s: float) -> None:
        """Note that a process is gone, and the history that is lost with it."""
        report = process.report
        if not process.reported_all:
            if now_s - report.sampled_s > SILENT_S:
                self.whole_from_s = now_s
            process = replace(
                process, report=replace(report, lost_s=now_s), closed_s=report.sampled_s
            )
        self.gone.append(process)

    def _miss(self, awaited: Iterable[RouterTarget], *, now_s: float) -> None:
        """Note which routers take clients without a report yet, and which never will report."""
        unheard = {
            each.pod: each.opened_s
            for each in awaited
            if each.pod not in self.current and each.opened_s is not None
        }
        for pod in self.unheard.keys() - unheard.keys() - self.current.keys():
            if now_s - self.unheard[pod] > SILENT_S:
                self.whole_from_s = now_s
        self.unheard = unheard


def _since(report: RouterReport, whole_from_s: float) -> RouterReport:
    """Return the report without its part before a hole."""
    if report.started_s >= whole_from_s:
        return report
    return replace(report, started_s=whole_from_s, joined=False)


def _ended(report: RouterReport, now_s: float) -> RouterReport:
    """Return the report as of now: nothing came since, and nothing is inside."""
    return replace(
        report,
        sampled_s=now_s,
        queued_requests=0,
        queued_prompt_tokens=0,
        held_prompt_tokens=0,
        overdue_requests=0,
        held_overdue_requests=0,
        prefill_requests=0,
        decode_requests=0,
        legs=(),
        sick=(),
        cache_worth_tokens={},
        classes=(),
        tenants=(),
        ended=True,
    )
