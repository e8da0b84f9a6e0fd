"""What a pool's router remembers and reports: arrivals and outcomes by second, latencies, blame."""

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field

from tandem_operator.core.observation import ArrivalSecond, FinishedSecond, Latency, Quantiles
from tandem_operator.sim.flight import Flight, Verdict
from tandem_routing.verdict import Cause, Ending, blame

BUCKET_EDGES_TOKENS = (128, 512, 2048, 8192, 32768)
HISTORY_S = 1200
LATENCY_S = 60.0
USUAL_KEEP = 0.95


@dataclass(slots=True)
class _Arrivals:
    requests: list[int] = field(default_factory=lambda: [0] * (len(BUCKET_EDGES_TOKENS) + 1))
    tokens: list[int] = field(default_factory=lambda: [0] * (len(BUCKET_EDGES_TOKENS) + 1))
    cached: int = 0


@dataclass(slots=True)
class Finished:
    """Requests that ended in some time."""

    finished: int = 0
    good: int = 0
    late_ttft: int = 0
    late_tpot: int = 0
    failed: int = 0
    output_tokens: int = 0
    output_tokens_squared: int = 0
    blame: dict[str, int] = field(default_factory=dict)

    def add(self, flight: Flight, verdict: Verdict, cause: Cause | None) -> None:
        """Count one."""
        self.finished += 1
        self.good += verdict.good
        self.late_ttft += verdict.late_ttft
        self.late_tpot += verdict.late_tpot
        self.failed += verdict.failed
        self.output_tokens += flight.made
        self.output_tokens_squared += flight.made * flight.made
        if cause is not None:
            self.blame[cause.value] = self.blame.get(cause.value, 0) + 1


class Ledger:
    """Rows by second. `epoch_s` is added to every time that is reported."""

    def __init__(self, *, epoch_s: float) -> None:
        self._epoch_s = epoch_s
        self.totals = Finished()
        self._arrivals: dict[int, _Arrivals] = {}
        self._finished: dict[int, Finished] = {}
        self._arrived_rows: deque[ArrivalSecond] = deque()
        self._finished_rows: deque[FinishedSecond] = deque()
        self._usual: dict[int, dict[Cause, float]] = {}
        self._recent: deque[tuple[float, float, float | None]] = deque()

    def arrive(self, flight: Flight) -> None:
        """Count a request on entry."""
        row = self._arrivals.setdefault(int(flight.request.at_s), _Arrivals())
        bucket = bucket_of(flight.request.prompt_tokens)
        row.requests[bucket] += 1
        row.tokens[bucket] += flight.request.prompt_tokens

    def cached(self, flight: Flight) -> None:
        """Add, to the second a request came in, the prompt tokens that a cache served."""
        row = self._arrivals.get(int(flight.request.at_s))
        if row is not None:
            row.cached += flight.cached_tokens

    def finish(self, flight: Flight, verdict: Verdict) -> None:
        """Count a request that ended, and what its violation is blamed on."""
        ended_s = flight.request.at_s if flight.end_s is None else flight.end_s
        cause = self._blame(flight, verdict)
        for row in (self._finished.setdefault(int(ended_s), Finished()), self.totals):
            row.add(flight, verdict, cause)
        if flight.ttft_s is not None:
            self._recent.append((ended_s, flight.ttft_s, flight.tpot_s))

    def _blame(self, flight: Flight, verdict: Verdict) -> Cause | None:
        """What the router blames for its violation."""
        usual = self._usual.setdefault(bucket_of(flight.request.prompt_tokens), {})
        if verdict.good:
            for part, seconds in verdict.found.parts.items():
                usual[part] = seconds + USUAL_KEEP * (usual.get(part, seconds) - seconds)
            return None
        return blame(verdict.found, flight.ending or Ending.FAILED, usual=usual)

    def arrivals(self, now_s: float) -> tuple[ArrivalSecond, ...]:
        """Rows of arrivals. A second's row is final once nothing of it can still be computed."""
        offset, settled = int(self._epoch_s), int(now_s) - HISTORY_S // 4
        for second in sorted(s for s in self._arrivals if s < settled):
            self._arrived_rows.append(self._arrival_row(second, offset))
            del self._arrivals[second]
        _forget(self._arrived_rows, offset + now_s - HISTORY_S)
        rest = (self._arrival_row(second, offset) for second in sorted(self._arrivals))
        return (*self._arrived_rows, *rest)

    def _arrival_row(self, second: int, offset: int) -> ArrivalSecond:
        row = self._arrivals[second]
        return ArrivalSecond(
            second=second + offset,
            requests=tuple(row.requests),
            prompt_tokens=tuple(row.tokens),
            cached_tokens=row.cached,
        )

    def finished(self, now_s: float) -> tuple[FinishedSecond, ...]:
        """Rows of what ended; every pod must have been run up to `now_s`."""
        offset, settled = int(self._epoch_s), int(now_s)
        for second in sorted(s for s in self._finished if s < settled):
            self._finished_rows.append(self._finished_row(second, offset))
            del self._finished[second]
        _forget(self._finished_rows, offset + now_s - HISTORY_S)
        rest = (self._finished_row(second, offset) for second in sorted(self._finished))
        return (*self._finished_rows, *rest)

    def _finished_row(self, second: int, offset: int) -> FinishedSecond:
        row = self._finished[second]
        return FinishedSecond(
            second=second + offset,
            finished=row.finished,
            good=row.good,
            late_ttft=row.late_ttft,
            late_tpot=row.late_tpot,
            failed=row.failed,
            shed=0,
            gone=0,
            output_tokens=row.output_tokens,
            output_tokens_squared=row.output_tokens_squared,
            blame=dict(row.blame),
        )

    def latency(self, now_s: float) -> Latency:
        """TTFT and TPOT of what ended in the last minute."""
        recent = self._recent
        while recent and recent[0][0] < now_s - LATENCY_S:
            recent.popleft()
        ttft = [entry[1] for entry in recent]
        tpot = [entry[2] for entry in recent if entry[2] is not None]
        return Latency(
            sampled_s=now_s + self._epoch_s, ttft=_quantiles(ttft), tpot=_quantiles(tpot)
        )


def bucket_of(prompt_tokens: int) -> int:
    """The prompt-length bucket; an edge belongs to the bucket below it."""
    return bisect_left(BUCKET_EDGES_TOKENS, prompt_tokens)


def _forget(rows: deque[ArrivalSecond] | deque[FinishedSecond], before_s: float) -> None:
    while rows and rows[0].second < before_s:
        rows.popleft()


def quantile(ordered: list[float], share: float) -> float | None:
    """The value that `share` of an ordered list stays at or under; `None` of an empty one."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


def _quantiles(values: list[float]) -> Quantiles:
    ordered = sorted(values)
    return Quantiles(*(quantile(ordered, share) for share in (0.5, 0.95, 0.99)))
