"""What routers told before they went, and since when nothing is missing from what all tell.

The clients of a router that is gone are with the others now. Without what it told, the load of
before would look like that of the others alone, and its move to them like a jump. And a router that
opens while others are open takes nothing from the history: who came before came to the others.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tandem_operator.core.observation import RouterReport
from tandem_operator.core.observe.arrivals import HISTORY_S
from tandem_operator.metrics.source import RouterTarget, Targets

SAME_START_S = 5.0
"""What a router's clock may seem to move between two looks."""
STAMP_S = 1.0
"""The API server's times are whole seconds."""
KEPT_ROWS = 26_000
"""Of all routers of a pool that are gone: ten whole histories. The oldest make room."""
SILENT_S = 15.0
"""Who went longer than this after its last word left a hole: a look comes every five seconds."""


@dataclass(frozen=True, slots=True)
class _Process:
    """One router process: its last report, and when it took new clients, as far as it is known."""

    report: RouterReport
    opened_s: float | None
    closed_s: float | None

    def is_of(self, report: RouterReport) -> bool:
        """Whether the report is of this very process: a container may have been started again."""
        return abs(report.started_s - self.report.started_s) < SAME_START_S

    def open_at(self, at_s: float) -> bool:
        """Whether it took new clients then."""
        return (
            self.opened_s is not None
            and self.opened_s <= at_s
            and (self.closed_s is None or self.closed_s >= at_s - STAMP_S)
        )

    def seen_as(self, target: RouterTarget | None) -> "_Process":
        """The process with what its pod shows now."""
        if target is None:
            return self
        opened_s = self.opened_s if target.opened_s is None else target.opened_s
        return replace(self, opened_s=opened_s, closed_s=target.closed_s)

    @property
    def rows(self) -> int:
        """Seconds that its report holds, and so what it takes to keep it; one at least."""
        return 1 + len(self.report.arrivals) + len(self.report.finished)

    @property
    def reported_all(self) -> bool:
        """Whether its last word came after its last client."""
        if self.opened_s is None:
            return True
        return self.closed_s is not None and self.report.sampled_s >= self.closed_s


class Departed:
    """Keeps the last report of each router for as long as its history counts."""

    def __init__(self) -> None:
        self._pools: dict[tuple[str, str], _Watched] = {}

    def add(
        self, targets: Targets, answers: Sequence[RouterReport], *, now_s: float
    ) -> tuple[RouterReport, ...]:
        """The answers, and after them those of routers that nobody waits for any more.

        A target that did not answer is missing, not gone: for it nothing is added.
        """
        watched = self._pools.setdefault((targets.namespace, targets.pool), _Watched(now_s))
        return watched.look({r.pod: r for r in targets.routers}, answers, now_s=now_s)

    def forget(self, *, namespace: str, pool: str) -> None:
        """Drop what is kept of a pool that is gone."""
        self._pools.pop((namespace, pool), None)


@dataclass(slots=True)
class _Watched:
    """The routers of one pool as this operator saw them come and go.

    Attributes:
        watched_from_s: the first look. Nobody knows which routers had gone before.
        whole_from_s: from then on nothing is missing from what they saw.
        current: by pod, the processes that are waited for and have answered.
        gone: those that are not waited for any more.
        unheard: since when pods that never answered have taken clients.
    """

    watched_from_s: float
    whole_from_s: float = 0.0
    current: dict[str, _Process] = field(default_factory=dict)
    gone: list[_Process] = field(default_factory=list)
    unheard: dict[str, float] = field(default_factory=dict)

    def look(
        self, awaited: Mapping[str, RouterTarget], answers: Sequence[RouterReport], *, now_s: float
    ) -> tuple[RouterReport, ...]:
        """What all routers of the pool told, those that are gone last."""
        # A clock that was set back.
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
        """Keep what is gone within bounds: a router can call itself a new one at each look."""
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
        """The report's process, where it was out of sight for a while."""
        for each in self.gone:
            if each.report.router == report.router and each.is_of(report):
                self.gone.remove(each)
                return each
        return None

    def _joins(self, opened_s: float | None) -> bool:
        """Whether one that opened then joined others that had all clients."""
        if opened_s is None or opened_s < self.watched_from_s - STAMP_S:
            return False
        return any(other.open_at(opened_s) for other in (*self.current.values(), *self.gone))

    def _end(self, process: _Process, *, now_s: float) -> None:
        """Note that a process is gone, and what it may have taken with it."""
        report = process.report
        if not process.reported_all:
            if now_s - report.sampled_s > SILENT_S:
                self.whole_from_s = now_s
            process = replace(
                process, report=replace(report, lost_s=now_s), closed_s=report.sampled_s
            )
        self.gone.append(process)

    def _miss(self, awaited: Iterable[RouterTarget], *, now_s: float) -> None:
        """Note who takes clients and has told nothing yet, and who never will."""
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
    """The report with nothing from before a hole."""
    if report.started_s >= whole_from_s:
        return report
    return replace(report, started_s=whole_from_s, joined=False)


def _ended(report: RouterReport, now_s: float) -> RouterReport:
    """The report as it would be now: nothing came since, and nothing is inside."""
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
        ended=True,
    )
