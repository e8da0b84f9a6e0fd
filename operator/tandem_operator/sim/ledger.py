"""The records of a pool's router: arrivals and outcomes by second, latencies, blame."""

from collections import deque

from tandem_operator.core.observation import ArrivalSecond, FinishedSecond, Latency, Quantiles
from tandem_operator.sim.flight import SimulatedFlight
from tandem_routing.history import (
    HISTORY_S,
    Finished,
    ResultHistory,
    SecondOfArrivals,
    woken_token_s,
)
from tandem_routing.verdict import Cause, Verdict

LATENCY_S = 60.0


class SimulatedLedger:
    """The rows by second. `epoch_s` is added to every reported time."""

    def __init__(self, *, epoch_s: float) -> None:
        self._epoch_s = epoch_s
        self.totals = Finished()
        self.classes = ResultHistory()
        self._arrivals: dict[int, SecondOfArrivals] = {}
        self._finished: dict[int, Finished] = {}
        self._best_effort: dict[int, None] = {}
        self._arrived_rows: deque[ArrivalSecond] = deque()
        self._finished_rows: deque[FinishedSecond] = deque()
        self.woken_token_s: float | None = None
        self._recent: deque[tuple[float, float, float | None]] = deque()

    def arrive(self, flight: SimulatedFlight) -> None:
        """Count a request on entry; no replica is held for best effort."""
        second = int(flight.request.at_s)
        if not flight.guaranteed:
            self._best_effort[second] = None
            return
        row = self._arrivals.get(second)
        if row is None:
            row = self._arrivals[second] = SecondOfArrivals()
        row.add(flight.request.prompt_tokens)

    def cached(self, flight: SimulatedFlight) -> None:
        """Add the prompt tokens that a cache served to the second in which a request came."""
        row = self._arrivals.get(int(flight.request.at_s)) if flight.guaranteed else None
        if row is not None:
            row.add_cached(flight.request.prompt_tokens, cached=flight.cached_tokens)

    def finish(self, flight: SimulatedFlight, verdict: Verdict, cause: Cause | None) -> None:
        """Count a request that ended, and the cause of its violation."""
        ended_s = flight.request.at_s if flight.end_s is None else flight.end_s
        second = int(ended_s)
        self.totals.add(verdict, cause, output_tokens=flight.made)
        if flight.slo_class is not None:
            name = flight.slo_class.name
            self.classes.add(name, verdict.outcome, output_tokens=flight.made, second=second)
        if flight.wake_s > 0.0 and flight.first_s is not None:
            self.woken_token_s = woken_token_s(
                self.woken_token_s, received_s=flight.request.at_s, token_s=flight.first_s
            )
        if not flight.guaranteed:
            return
        row = self._finished.get(second)
        if row is None:
            row = self._finished[second] = Finished()
        row.add(verdict, cause, output_tokens=flight.made)
        if flight.ttft_s is not None:
            self._recent.append((ended_s, flight.ttft_s, flight.tpot_s))

    def arrivals(self, now_s: float) -> tuple[ArrivalSecond, ...]:
        """Return rows of arrivals. A row is final once all its prompts have been computed."""
        offset, settled = int(self._epoch_s), int(now_s) - HISTORY_S // 4
        for second in sorted(s for s in self._arrivals if s < settled):
            self._arrived_rows.append(self._arrival_row(second, offset))
            del self._arrivals[second]
        _forget(self._arrived_rows, offset + now_s - HISTORY_S)
        rest = (self._arrival_row(second, offset) for second in sorted(self._arrivals))
        return (*self._arrived_rows, *rest)

    def best_effort(self, now_s: float) -> tuple[int, ...]:
        """Return the seconds in which best effort came."""
        for past in [second for second in self._best_effort if second <= now_s - HISTORY_S]:
            del self._best_effort[past]
        return tuple(second + int(self._epoch_s) for second in self._best_effort)

    def _arrival_row(self, second: int, offset: int) -> ArrivalSecond:
        row = self._arrivals[second]
        return ArrivalSecond(
            second=second + offset,
            requests=tuple(row.requests),
            prompt_tokens=tuple(row.tokens),
            cached_tokens=sum(row.cached),
            cached_by_bucket=tuple(row.cached),
        )

    def finished(self, now_s: float) -> tuple[FinishedSecond, ...]:
        """Return rows of ended requests; every pod must have run up to `now_s`."""
        offset, settled = int(self._epoch_s), int(now_s)
        for second in sorted(s for s in self._finished if s < settled):
            self._finished_rows.append(self._finished_row(second, offset))
            del self._finished[second]
        _forget(self._finished_rows, offset + now_s - HISTORY_S)
        rest = (self._finished_row(second, offset) for second in sorted(self._finished))
        return (*self._finished_rows, *rest)

    def _finished_row(self, second: int, offset: int) -> FinishedSecond:
        return FinishedSecond(second=second + offset, **self._finished[second].row())

    def latency(self, now_s: float) -> Latency:
        """Return TTFT and TPOT of requests that ended in the last minute."""
        recent = self._recent
        while recent and recent[0][0] < now_s - LATENCY_S:
            recent.popleft()
        ttft = [entry[1] for entry in recent]
        tpot = [entry[2] for entry in recent if entry[2] is not None]
        return Latency(
            sampled_s=now_s + self._epoch_s, ttft=_quantiles(ttft), tpot=_quantiles(tpot)
        )


def _forget(rows: deque[ArrivalSecond] | deque[FinishedSecond], before_s: float) -> None:
    while rows and rows[0].second < before_s:
        rows.popleft()


def quantile(ordered: list[float], share: float) -> float | None:
    """Return the value that `share` of an ordered list stays at or under; `None` if it is empty."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


def _quantiles(values: list[float]) -> Quantiles:
    ordered = sorted(values)
    return Quantiles(*(quantile(ordered, share) for share in (0.5, 0.95, 0.99)))
