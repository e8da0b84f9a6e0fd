"""One run: the passes of prompts through a new router, and what the engines counted."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import StrEnum

import aiohttp

from benchmarks.load.client import send
from benchmarks.load.plan import PlannedRequest
from benchmarks.load.record import Outcome, Record
from benchmarks.prefixes_live.pool import ANSWER_S, MODEL, Counted, LivePool
from benchmarks.prefixes_live.prompts import Prompt
from benchmarks.router.targets import Target

OUTPUT_TOKENS = 8
# Something happens at this pass: by then caches are warm.
THIRD = 2


class Event(StrEnum):
    """What happens at the third pass."""

    NOTHING = "nothing happens"
    ROUTER = "the router restarts"
    ENGINE = "a prefill engine is killed"


@dataclass(frozen=True, slots=True)
class Plan:
    """A run to be made.

    Attributes:
        salt: keeps engines from serving a run out of what another run left in their caches.
    """

    by_prefix: bool
    at_a_time: int
    event: Event
    salt: str


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass came to.

    Attributes:
        by_pod: the counters of each prefill engine that ran from the pass's begin to its end.
        foreseen: prompt tokens that the router took to be in caches.
    """

    records: Sequence[Record]
    by_pod: dict[int, Counted]
    foreseen: float

    def total(self, of: Callable[[Counted], float]) -> float:
        """Return the sum over prefill engines."""
        return sum(map(of, self.by_pod.values()))


async def sent(
    prompts: Sequence[Prompt],
    url: str,
    *,
    salt: str,
    at_a_time: int,
    on_record: Callable[[int], None] = lambda ended: None,
) -> list[Record]:
    """Send each prompt as soon as fewer than `at_a_time` are under way; return all records."""
    gate, ended = asyncio.Semaphore(at_a_time), 0
    connector = aiohttp.TCPConnector(force_close=True)

    async def one(number: int, prompt: Prompt) -> Record:
        nonlocal ended
        planned = PlannedRequest(
            request_id=f"{salt}-{number}",
            at_s=0.0,
            prompt_token_ids=prompt,
            output_tokens=OUTPUT_TOKENS,
            cache_salt=salt,
            wants_token_ids=True,
        )
        async with gate:
            record = await send(
                session,
                planned,
                url=url,
                model=MODEL,
                traffic=salt,
                late_s=0.0,
                timeout_s=2 * ANSWER_S,
            )
        ended += 1
        on_record(ended)
        return record

    async with aiohttp.ClientSession(connector=connector) as session:
        return list(await asyncio.gather(*(one(*each) for each in enumerate(prompts))))


@dataclass
class _Run:
    pool: LivePool
    plan: Plan
    passes: Sequence[Sequence[Prompt]]
    made: list[Pass] = field(default_factory=list)

    async def play(self, told: Callable[[int, Pass], None]) -> None:
        by_prefix = self.plan.by_prefix
        with ExitStack() as held:
            router = held.enter_context(self.pool.routed(by_prefix=by_prefix))
            for number, prompts in enumerate(self.passes):
                event = self.plan.event if number == THIRD else Event.NOTHING
                if event is Event.ROUTER:
                    held.close()
                    router = held.enter_context(self.pool.routed(by_prefix=by_prefix))
                victim = self._busiest() if event is Event.ENGINE else None
                self.made.append(await self._one_pass(prompts, router, victim=victim))
                told(number, self.made[-1])
                if victim is not None:
                    await self.pool.restart(victim)

    def _busiest(self) -> int:
        """Return the prefill engine whose cache served the most."""
        found = self.made[-1].by_pod
        return max(found, key=lambda pod: found[pod].found)

    async def _one_pass(
        self, prompts: Sequence[Prompt], router: Target, *, victim: int | None
    ) -> Pass:
        kills: list[asyncio.Task[None]] = []

        def look(ended: int) -> None:
            if victim is not None and ended == len(prompts) // 4:
                kills.append(asyncio.create_task(self.pool.kill(victim)))

        plan, pool = self.plan, self.pool
        url = f"http://127.0.0.1:{router.port}"
        before, foreseen = await pool.counted(), await pool.foreseen(router)
        records = await sent(prompts, url, salt=plan.salt, at_a_time=plan.at_a_time, on_record=look)
        await asyncio.gather(*kills)
        pairs = zip(before, await pool.counted(), strict=True)
        by_pod = {
            pod: late.since(early)
            for pod, (early, late) in enumerate(pairs)
            if early is not None and late is not None
        }
        return Pass(records, by_pod, await pool.foreseen(router) - foreseen)


async def run(
    pool: LivePool,
    plan: Plan,
    passes: Sequence[Sequence[Prompt]],
    *,
    told: Callable[[int, Pass], None],
) -> list[Pass]:
    """Make one run; `told` gets each pass as it ends."""
    one = _Run(pool, plan, passes)
    await one.play(told)
    return one.made


def differing(records: Sequence[Record], alone: Sequence[Record]) -> int:
    """Return how many answers are not those of one engine alone, or are none at all."""
    return sum(
        one.outcome is not Outcome.FINISHED or not one.token_ids or one.token_ids != other.token_ids
        for one, other in zip(records, alone, strict=True)
    )
