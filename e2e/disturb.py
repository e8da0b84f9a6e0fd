"""Load with something broken in the middle of it, and what became of every request."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.load.generator import LoadGenerator
from benchmarks.load.plan import Traffic, plan_requests
from benchmarks.load.record import Outcome, Record, tally


@dataclass(frozen=True, slots=True)
class Aftermath:
    """All requests of a disturbed stretch of load.

    Attributes:
        disturbed_s: epoch seconds at which the disturbance began.
        limit_s: how long a request may take before its client calls it hung.
    """

    records: tuple[Record, ...]
    disturbed_s: float
    limit_s: float

    @property
    def failed(self) -> list[Record]:
        """Requests that did not finish, whatever the reason."""
        return [record for record in self.records if record.outcome is not Outcome.FINISHED]

    @property
    def hung(self) -> list[Record]:
        """Requests that had no end within the limit."""
        return [record for record in self.records if record.elapsed_s >= self.limit_s]

    @property
    def failed_without_cause(self) -> list[Record]:
        """Failed requests that were not open at the moment of the disturbance."""
        return [
            record
            for record in self.failed
            if not record.sent_s <= self.disturbed_s <= record.ended_s
        ]

    def to_json(self) -> dict[str, object]:
        """Counts, and why."""
        figures = tally([(record, _NO_BOUNDS) for record in self.records])
        return {
            "sent": figures.requests,
            "finished": figures.requests - len(self.failed),
            "failed": figures.failed,
            "shed": figures.shed,
            "hung": len(self.hung),
            "failed_that_were_not_open_at_the_fault": len(self.failed_without_cause),
            "why": figures.why,
        }


class _NoBounds:
    """Bounds that every request keeps: here only the ends count."""

    tpot_s = float("inf")

    def ttft_bound_s(self, prompt_tokens: float) -> float:
        """No bound, however long the prompt."""
        return self.tpot_s + prompt_tokens


_NO_BOUNDS = _NoBounds()


def load_while(
    disturb: Callable[[], None],
    *,
    url: str,
    model: str,
    traffic: Traffic,
    after_s: float,
    limit_s: float = 60.0,
    seed: int = 7,
) -> Aftermath:
    """Send `traffic`, call `disturb` `after_s` seconds into it, and wait for every answer."""

    async def run() -> tuple[list[Record], float]:
        async with LoadGenerator(url=url, model=model, timeout_s=limit_s) as generator:
            plan = plan_requests(traffic, seed=seed, run=traffic.name)
            load = asyncio.create_task(generator.run(plan, traffic=traffic.name))
            await asyncio.sleep(after_s)
            disturbed_s = time.time()
            await asyncio.to_thread(disturb)
            return await load, disturbed_s

    records, disturbed_s = asyncio.run(run())
    return Aftermath(records=tuple(records), disturbed_s=disturbed_s, limit_s=limit_s)
