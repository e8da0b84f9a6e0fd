"""What routers told before their pods went, and since when nothing is missing from it.

The clients of a router that is gone are with the others now. Without what it told, the load of
before would look like that of the others alone, and its move to them like a jump.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tandem_operator.core.arrivals import HISTORY_S
from tandem_operator.core.observation import RouterReport
from tandem_operator.metrics.source import RouterTarget, Targets

SAME_START_S = 5.0
"""What a router's clock may seem to move between two looks."""
STAMP_S = 1.0
"""The API server's times are whole seconds."""


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


@dataclass(slots=True)
class _Kept:
    """One pool's routers by pod, and since when nothing of what they saw was lost.

    Attributes:
        watched_from_s: the first look. Nobody knows which routers had gone before.
    """

    watched_from_s: float
    whole_from_s: float = 0.0
    processes: dict[str, _Process] = field(default_factory=dict)


class Departed:
    """Keeps the last report of each router for as long as its history counts."""

    def __init__(self) -> None:
        self._pools: dict[tuple[str, str], _Kept] = {}

    def add(
        self, targets: Targets, answers: Sequence[RouterReport], *, now_s: float
    ) -> tuple[RouterReport, ...]:
        """The answers, and after them those of routers that nobody waits for any more.

        A target that did not answer is missing, not gone: for it nothing is added.
        """
        kept = self._pools.setdefault((targets.namespace, targets.pool), _Kept(now_s))
        # A clock that was set back.
        kept.watched_from_s = min(kept.watched_from_s, now_s)
        kept.whole_from_s = min(kept.whole_from_s, now_s)
        awaited = {router.pod: router for router in targets.routers}
        before = dict(kept.processes)
        for report in answers:
            kept.processes[report.router] = _after(
                before, report, awaited.get(report.router), watched_from_s=kept.watched_from_s
            )
        _note_losses(kept, before, awaited, now_s=now_s)
        told = [kept.processes[report.router].report for report in answers]
        for pod, process in tuple(kept.processes.items()):
            if now_s - process.report.sampled_s > HISTORY_S:
                del kept.processes[pod]
        gone = [
            _ended(process.report, now_s)
            for pod, process in kept.processes.items()
            if pod not in awaited
        ]
        return tuple(_since(report, kept.whole_from_s) for report in (*told, *gone))

    def forget(self, *, namespace: str, pool: str) -> None:
        """Drop what is kept of a pool that is gone."""
        self._pools.pop((namespace, pool), None)


def _after(
    before: Mapping[str, _Process],
    report: RouterReport,
    target: RouterTarget | None,
    *,
    watched_from_s: float,
) -> _Process:
    """The report's process after this look."""
    opened_s, closed_s = (None, None) if target is None else (target.opened_s, target.closed_s)
    known = before.get(report.router)
    if known is not None and known.is_of(report):
        opened_s = known.opened_s if opened_s is None else opened_s
        return _Process(replace(report, joined=known.report.joined), opened_s, closed_s)
    joined = (
        opened_s is not None
        and opened_s >= watched_from_s - STAMP_S
        and any(other.open_at(opened_s) for pod, other in before.items() if pod != report.router)
    )
    return _Process(replace(report, joined=joined), opened_s, closed_s)


def _note_losses(
    kept: _Kept,
    before: Mapping[str, _Process],
    awaited: Mapping[str, RouterTarget],
    *,
    now_s: float,
) -> None:
    """Note what took clients until it vanished: nobody knows who came in its last seconds."""
    for pod, process in before.items():
        after = kept.processes[pod]
        if not process.is_of(after.report):
            kept.whole_from_s = max(kept.whole_from_s, after.report.started_s)
        elif pod not in awaited and process.opened_s is not None and process.closed_s is None:
            kept.whole_from_s = max(kept.whole_from_s, now_s)
            kept.processes[pod] = replace(process, closed_s=process.report.sampled_s)


def _since(report: RouterReport, whole_from_s: float) -> RouterReport:
    """The report with nothing from before a loss."""
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
        ended=True,
    )
