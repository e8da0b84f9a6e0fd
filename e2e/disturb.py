"""Load with a disturbance in the middle, and the fate of every request."""

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
        dealt_s: epoch seconds at which the cluster could know of it; what was killed ended
            in between.
        limit_s: how long a request may take before its client calls it hung.
    """

    records: tuple[Record, ...]
    disturbed_s: float
    dealt_s: float
    limit_s: float

    @property
    def failed(self) -> list[Record]:
        """Return the requests that did not finish, whatever the reason."""
        return [record for record in self.records if record.outcome is not Outcome.FINISHED]

    @property
    def hung(self) -> list[Record]:
        """Return the requests that had no end within the limit."""
        return [record for record in self.records if record.elapsed_s >= self.limit_s]

    @property
    def failed_without_cause(self) -> list[Record]:
        """Return the failed requests that were not open while the disturbance was made."""
        return [
            record
            for record in self.failed
            if record.sent_s > self.dealt_s or record.ended_s < self.disturbed_s
        ]

    def to_json(self) -> dict[str, object]:
        """Return counts and reasons as JSON."""
        figures = tally([(record, _NO_BOUNDS) for record in self.records])
        return {
            "sent": figures.requests,
            "finished": figures.requests - len(self.failed),
            "failed": figures.failed,
            "shed": figures.shed,
            "hung": len(self.hung),
            "failed_that_were_not_open_at_the_fault": len(self.failed_without_cause),
            "fault_known_after_s": round(self.dealt_s - self.disturbed_s, 2),
            "why": [
                {
                    "sent_after_fault_s": round(record.sent_s - self.disturbed_s, 2),
                    "ended_after_fault_s": round(record.ended_s - self.disturbed_s, 2),
                    "why": record.why,
                }
                for record in self.failed
            ],
        }


class _NoBounds:
    """Bounds that every request keeps: here only the ends count."""

    tpot_s = float("inf")

    def ttft_bound_s(self, prompt_tokens: float) -> float:
        """Return an endless bound, however long the prompt."""
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
    blind_s: float = 0.0,
    seed: int = 7,
) -> Aftermath:
    """Send `traffic`, call `disturb` `after_s` seconds into it, and wait for every answer.

    `blind_s` is how long Kubernetes itself may take to see what `disturb` did.
    """

    async def run() -> tuple[list[Record], float, float]:
        async with LoadGenerator(url=url, model=model, timeout_s=limit_s) as generator:
            plan = plan_requests(traffic, seed=seed, run=traffic.name)
            load = asyncio.create_task(generator.run(plan, traffic=traffic.name))
            await asyncio.sleep(after_s)
            disturbed_s = time.time()
            await asyncio.to_thread(disturb)
            dealt_s = time.time() + blind_s
            return await load, disturbed_s, dealt_s

    records, disturbed_s, dealt_s = asyncio.run(run())
    return Aftermath(
        records=tuple(records), disturbed_s=disturbed_s, dealt_s=dealt_s, limit_s=limit_s
    )
