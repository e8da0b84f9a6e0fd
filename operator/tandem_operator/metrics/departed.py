"""What routers told before their pods went.

Their clients are with the other routers now. Without it the load of before would look like that of
the others alone, and its move to them like a jump.
"""

from collections.abc import Sequence
from dataclasses import replace

from tandem_operator.core.arrivals import HISTORY_S
from tandem_operator.core.observation import RouterReport
from tandem_operator.metrics.source import Targets


class Departed:
    """Keeps the last report of each router for as long as its history counts."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], dict[str, RouterReport]] = {}

    def add(
        self, targets: Targets, answers: Sequence[RouterReport], *, now_s: float
    ) -> tuple[RouterReport, ...]:
        """The answers, and after them those of routers that nobody waits for any more.

        A target that did not answer is missing, not gone: for it nothing is added.
        """
        last = self._last.setdefault((targets.namespace, targets.pool), {})
        last.update({report.router: report for report in answers})
        for pod in [p for p, report in last.items() if now_s - report.sampled_s > HISTORY_S]:
            del last[pod]
        awaited = {router.pod for router in targets.routers}
        gone = [_ended(report, now_s) for pod, report in last.items() if pod not in awaited]
        return (*answers, *gone)

    def forget(self, *, namespace: str, pool: str) -> None:
        """Drop what is kept of a pool that is gone."""
        self._last.pop((namespace, pool), None)


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
