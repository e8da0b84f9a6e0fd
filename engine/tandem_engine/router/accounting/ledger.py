"""The history of this router, one row per second, and running totals per engine pod.

A second without a row had no event. A second before the start of the router is unknown, and the
report contains the start. Rows of a second change while exact token counts of its requests come in.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from tandem_contracts.arrivals import (
    MOST_AMOUNT,
    MOST_COUNT,
    ArrivalsReport,
    ClassReport,
    FinishedRow,
    InSystem,
    LegReport,
    SickReport,
    TenantReport,
)
from tandem_engine.router.pods.pod import Pod, Role
from tandem_routing.history import (
    BUCKET_EDGES_TOKENS,
    HISTORY_S,
    RESULT_WINDOW_S,
    Finished,
    ResultHistory,
    SecondOfArrivals,
    woken_token_s,
)
from tandem_routing.verdict import Cause, Verdict

# What is further ahead was written down before the clock was set back, and a report has no room.
_MOST_AHEAD_S = 60


@dataclass(slots=True)
class LegTotals:
    """Running totals of one pod's legs; `busy_s` counts while at least one is outstanding."""

    role: Role
    busy_s: float = 0.0
    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    prompt_token_contexts: float = 0.0
    output_tokens: int = 0
    outstanding: int = 0
    since_s: float = 0.0
    touched_s: float = 0.0

    def busy_until(self, now: float) -> float:
        """Return the busy time, including a period that has not ended."""
        return self.busy_s + (now - self.since_s if self.outstanding else 0.0)


class Ledger:
    """The content of `/arrivals`."""

    def __init__(
        self, *, router: str, wall: Callable[[], float], clock: Callable[[], float]
    ) -> None:
        self._router = router
        self._wall = wall
        self._clock = clock
        self._started_s = wall()
        self._arrivals: dict[int, SecondOfArrivals] = {}
        self._best_effort: Counter[int] = Counter()
        self._finished: dict[int, Finished] = {}
        self._legs: dict[str, LegTotals] = {}
        self._woken_token_s: float | None = None
        self._classes = ResultHistory()
        self._tenants = ResultHistory()

    @property
    def now_s(self) -> float:
        """The wall clock of its rows."""
        return self._wall()

    def arrive(self, tokens: int) -> int:
        """Count a request on entry and return the second of its row."""
        second = int(self._wall())
        row = self._arrivals.get(second)
        if row is None:
            self._forget(second)
            row = self._arrivals[second] = SecondOfArrivals()
        row.add(tokens)
        return second

    def arrive_best_effort(self) -> int:
        """Count a request on entry for which no replica is held; return its second."""
        second = int(self._wall())
        if second not in self._best_effort:
            self._forget(second)
        self._best_effort[second] += 1
        return second

    def correct(self, second: int, *, estimated: int, exact: int, cached: int | None) -> None:
        """Replace the estimate of a request by its exact counts."""
        row = self._arrivals.get(second)
        if row is None:
            return
        row.take_back(estimated)
        row.add(exact)
        row.add_cached(exact, cached=cached or 0)

    def withdraw(self, second: int, *, tokens: int, cached: int | None) -> None:
        """Remove a request that was not valid, with its last counts."""
        row = self._arrivals.get(second)
        if row is None:
            return
        row.take_back(tokens, cached=cached or 0)
        if not any(row.requests):
            del self._arrivals[second]

    def withdraw_best_effort(self, second: int) -> None:
        """Take such a request back that turned out to be none."""
        if second in self._best_effort:
            self._best_effort[second] -= 1
            self._best_effort += Counter()

    def finish(self, verdict: Verdict, cause: Cause | None, *, output_tokens: int) -> None:
        """Count a request that ended."""
        second = int(self._wall())
        row = self._finished.get(second)
        if row is None:
            self._forget(second)
            row = self._finished[second] = Finished()
        row.add(verdict, cause, output_tokens=output_tokens)

    def woken(self, *, received_s: float, token_s: float) -> None:
        """Record the first token of a request that had waited for the pool to wake."""
        self._woken_token_s = woken_token_s(
            self._woken_token_s, received_s=received_s, token_s=token_s
        )

    def finish_class(self, name: str, verdict: Verdict, *, output_tokens: int) -> None:
        """Count a request of a class that ended."""
        second = int(self._wall())
        self._classes.add(name, verdict.outcome, output_tokens=output_tokens, second=second)

    def classes(self, queued: Mapping[str, int]) -> list[ClassReport]:
        """Return the recent results of each class; `queued` has the waiting requests of each."""
        second, found = int(self._wall()), []
        for name, waiting in queued.items():
            window = self._classes.window(name, second=second)
            found.append(
                ClassReport(
                    name=name,
                    window_s=RESULT_WINDOW_S,
                    finished=window.finished,
                    good=window.good,
                    output_tokens=min(window.output_tokens, MOST_COUNT),
                    good_output_tokens=min(window.good_output_tokens, MOST_COUNT),
                    queued_requests=waiting,
                )
            )
        return found

    def finish_tenant(self, name: str, verdict: Verdict, *, output_tokens: int) -> None:
        """Count a request of a tenant that ended."""
        second = int(self._wall())
        self._tenants.add(name, verdict.outcome, output_tokens=output_tokens, second=second)

    def limit_tenant(self, name: str) -> None:
        """Count a request that a limit of its tenant refused."""
        self._tenants.limit(name, second=int(self._wall()))

    def tenants(self, names: Iterable[str]) -> list[TenantReport]:
        """Return the recent results of each tenant."""
        second, found = int(self._wall()), []
        for name in names:
            window = self._tenants.window(name, second=second)
            found.append(
                TenantReport(
                    name=name,
                    window_s=RESULT_WINDOW_S,
                    finished=window.finished,
                    good=window.good,
                    too_late=window.too_late,
                    shed=window.shed,
                    limited=window.limited,
                    output_tokens=min(window.output_tokens, MOST_COUNT),
                )
            )
        return found

    def leg_began(self, pod: Pod) -> None:
        """Count a request that was sent to `pod`."""
        now = self._clock()
        leg = self._legs.get(pod.name)
        if leg is None:
            leg = self._legs[pod.name] = LegTotals(pod.endpoint.role)
        if not leg.outstanding:
            leg.since_s = now
        leg.outstanding += 1
        leg.touched_s = now

    def leg_ended(self, pod: Pod) -> None:
        """Count a request that is no longer at `pod`, however it ended."""
        now = self._clock()
        leg = self._legs[pod.name]
        leg.outstanding -= 1
        leg.touched_s = now
        if not leg.outstanding:
            leg.busy_s += now - leg.since_s

    def leg_served(
        self,
        pod: Pod,
        *,
        prompt_tokens: int,
        cached_tokens: int,
        computed_tokens: int,
        output_tokens: int,
    ) -> None:
        """Add the tokens of a leg that `pod` answered; `computed_tokens` were prefilled there."""
        leg = self._legs[pod.name]
        leg.requests += 1
        leg.prompt_tokens += prompt_tokens
        leg.cached_tokens += cached_tokens
        leg.prompt_token_contexts += computed_tokens * (prompt_tokens - computed_tokens / 2)
        leg.output_tokens += output_tokens

    def report(
        self,
        *,
        now_s: float,
        in_system: InSystem,
        sick: list[SickReport],
        busy_share: float,
        cache_worth: Mapping[str, int],
        classes: Sequence[ClassReport] = (),
        tenants: Sequence[TenantReport] = (),
    ) -> ArrivalsReport:
        """Return the whole `/arrivals` document at `now_s` of the wall clock."""
        now = self._clock()
        self._forget(int(now_s))
        # Thousands of rows: to check them once more would stop all streams for milliseconds.
        return ArrivalsReport.model_construct(
            version=1,
            router=self._router,
            started_s=self._started_s,
            now_s=now_s,
            bucket_edges_tokens=BUCKET_EDGES_TOKENS,
            arrivals=[
                (second, row.requests, row.tokens, sum(row.cached))
                for second, row in sorted(self._arrivals.items())
            ],
            cached_by_bucket=[
                (second, row.cached)
                for second, row in sorted(self._arrivals.items())
                if any(row.cached)
            ],
            best_effort=sorted(self._best_effort),
            finished=cast(
                list[tuple[int, FinishedRow]],
                [(second, _row(row)) for second, row in sorted(self._finished.items())],
            ),
            in_system=in_system,
            classes=list(classes),
            tenants=list(tenants),
            legs=[
                LegReport(
                    pod=name,
                    role=leg.role.value,
                    busy_s=round(leg.busy_until(now), 6),
                    requests=leg.requests,
                    prompt_tokens=min(leg.prompt_tokens, MOST_COUNT),
                    cached_tokens=min(leg.cached_tokens, MOST_COUNT),
                    prompt_token_contexts=min(leg.prompt_token_contexts, MOST_AMOUNT),
                    output_tokens=min(leg.output_tokens, MOST_COUNT),
                )
                for name, leg in sorted(self._legs.items())
            ],
            sick=sick,
            cache_worth_tokens={
                name: min(tokens, MOST_COUNT) for name, tokens in sorted(cache_worth.items())
            },
            busy_share=busy_share,
            woken_token_s=self._woken_token_s,
        )

    def _forget(self, second: int) -> None:
        oldest, latest = second - HISTORY_S, second + _MOST_AHEAD_S
        for rows in (self._arrivals, self._best_effort, self._finished):
            for other in [known for known in rows if not oldest < known <= latest]:
                del rows[other]
        horizon = self._clock() - HISTORY_S
        for name in [
            name
            for name, leg in self._legs.items()
            if not leg.outstanding and leg.touched_s < horizon
        ]:
            del self._legs[name]


def _row(finished: Finished) -> dict[str, Any]:
    """Return the counts of a second, none beyond what a report may hold: one would cost it all."""
    row = finished.row()
    for name in ("output_tokens", "output_tokens_squared"):
        row[name] = min(row[name], MOST_COUNT)
    return row
