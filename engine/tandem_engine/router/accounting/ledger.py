"""The router's own history, one row per second, and running totals per engine pod.

A second without a row saw nothing; a second before the router started is unknown, and the report
says when that was. Rows of a second change while its requests' exact token counts come in.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from tandem_contracts.arrivals import (
    ArrivalsReport,
    FinishedRow,
    InSystem,
    LegReport,
    SickReport,
)
from tandem_engine.router.pods.pod import Pod, Role
from tandem_routing.history import (
    BUCKET_EDGES_TOKENS,
    HISTORY_S,
    Finished,
    SecondOfArrivals,
)
from tandem_routing.verdict import Cause, Verdict


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
        """Return the busy time including a stretch that has not ended."""
        return self.busy_s + (now - self.since_s if self.outstanding else 0.0)


class Ledger:
    """What `/arrivals` reports."""

    def __init__(
        self, *, router: str, wall: Callable[[], float], clock: Callable[[], float]
    ) -> None:
        self._router = router
        self._wall = wall
        self._clock = clock
        self._started_s = wall()
        self._arrivals: dict[int, SecondOfArrivals] = {}
        self._finished: dict[int, Finished] = {}
        self._legs: dict[str, LegTotals] = {}

    @property
    def now_s(self) -> float:
        """The wall clock that its rows go by."""
        return self._wall()

    def arrive(self, tokens: int) -> int:
        """Count a request on entry and return the second it stands in."""
        second = int(self._wall())
        row = self._arrivals.get(second)
        if row is None:
            self._forget(second)
            row = self._arrivals[second] = SecondOfArrivals()
        row.add(tokens)
        return second

    def correct(self, second: int, *, estimated: int, exact: int, cached: int | None) -> None:
        """Put the exact counts of a request where its estimate stood."""
        row = self._arrivals.get(second)
        if row is None:
            return
        row.take_back(estimated)
        row.add(exact)
        row.cached += cached or 0

    def withdraw(self, second: int, *, tokens: int, cached: int | None) -> None:
        """Take a request back that turned out to be none, as last counted."""
        row = self._arrivals.get(second)
        if row is None:
            return
        row.take_back(tokens)
        row.cached -= cached or 0
        if not any(row.requests):
            del self._arrivals[second]

    def finish(self, verdict: Verdict, cause: Cause | None, *, output_tokens: int) -> None:
        """Count a request that ended."""
        second = int(self._wall())
        row = self._finished.get(second)
        if row is None:
            self._forget(second)
            row = self._finished[second] = Finished()
        row.add(verdict, cause, output_tokens=output_tokens)

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
        """Add what a leg that `pod` answered was worth; `computed_tokens` were prefilled there."""
        leg = self._legs[pod.name]
        leg.requests += 1
        leg.prompt_tokens += prompt_tokens
        leg.cached_tokens += cached_tokens
        leg.prompt_token_contexts += computed_tokens * (prompt_tokens - computed_tokens / 2)
        leg.output_tokens += output_tokens

    def report(
        self, *, now_s: float, in_system: InSystem, sick: list[SickReport], busy_share: float
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
                (second, row.requests, row.tokens, row.cached)
                for second, row in sorted(self._arrivals.items())
            ],
            finished=cast(
                list[tuple[int, FinishedRow]],
                [(second, row.row()) for second, row in sorted(self._finished.items())],
            ),
            in_system=in_system,
            legs=[
                LegReport(
                    pod=name,
                    role=leg.role.value,
                    busy_s=round(leg.busy_until(now), 6),
                    requests=leg.requests,
                    prompt_tokens=leg.prompt_tokens,
                    cached_tokens=leg.cached_tokens,
                    prompt_token_contexts=leg.prompt_token_contexts,
                    output_tokens=leg.output_tokens,
                )
                for name, leg in sorted(self._legs.items())
            ],
            sick=sick,
            busy_share=busy_share,
        )

    def _forget(self, second: int) -> None:
        oldest = second - HISTORY_S
        for rows in (self._arrivals, self._finished):
            for past in [known for known in rows if known <= oldest]:
                del rows[past]
        horizon = self._clock() - HISTORY_S
        for name in [
            name
            for name, leg in self._legs.items()
            if not leg.outstanding and leg.touched_s < horizon
        ]:
            del self._legs[name]
