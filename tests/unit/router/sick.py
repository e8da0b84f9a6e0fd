"""An open load on a pool of fake engines, and its outcome."""

import asyncio
from dataclasses import dataclass, field

import aiohttp

from tests.unit.router.pool import Pool

SLO_TTFT_S = 1.0


@dataclass
class Outcome:
    """One request: when it was sent, whether it got its whole answer, in time, and why not."""

    sent_s: float
    whole: bool
    first_s: float | None
    why: str = ""


@dataclass
class Load:
    """Requests at a steady rate."""

    pool: Pool
    rate: float
    outcomes: list[Outcome] = field(default_factory=list)
    _tasks: set["asyncio.Task[None]"] = field(default_factory=set)

    async def send(self, requests: int) -> None:
        """Send so many, and wait for the end of each."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        for number in range(requests):
            await asyncio.sleep(max(0.0, began + number / self.rate - loop.time()))
            self.begin()
        await asyncio.gather(*self._tasks)

    async def send_until_served(self, name: str, *, share: float, within_s: float) -> float:
        """Send until the engine gets `share` of a second's requests; return when that was."""
        loop, engine = asyncio.get_running_loop(), self.pool.engines[name]
        began = loop.time()
        fleet = [each for key, each in self.pool.engines.items() if key[0] == name[0]]
        while loop.time() < began + within_s:
            own, all_ = len(engine.seen), sum(len(each.seen) for each in fleet)
            second = loop.time() + 1.0
            while loop.time() < second:
                self.begin()
                await asyncio.sleep(1.0 / self.rate)
            got = sum(len(each.seen) for each in fleet) - all_
            if len(engine.seen) - own >= share * got > 0:
                break
        else:
            raise AssertionError(f"{name} did not serve its share within {within_s} s")
        took_s = loop.time() - began
        await asyncio.gather(*self._tasks)
        return took_s

    @property
    def failed(self) -> int:
        """Return how many were not answered as a whole."""
        return len(self.failures)

    @property
    def failures(self) -> list[str]:
        """Return why each was not answered that was not."""
        return [outcome.why for outcome in self.outcomes if not outcome.whole]

    @property
    def late(self) -> int:
        """Return how many had no first token in time."""
        return sum(
            outcome.first_s is None or outcome.first_s > SLO_TTFT_S for outcome in self.outcomes
        )

    def begin(self) -> None:
        """Send one request."""
        task = asyncio.create_task(self._one())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _one(self) -> None:
        loop = asyncio.get_running_loop()
        sent, first_s, whole, why = loop.time(), None, False, "cut off"
        body = {"model": "tiny", "stream": True, "prompt": "one two three"}
        url = self.pool.url + "/v1/completions"
        try:
            async with self.pool.client.post(url, json=body) as response:
                if response.status == 200:
                    async for line in response.content:
                        if first_s is None and b'"text"' in line:
                            first_s = loop.time() - sent
                        if b'"error"' in line:
                            why = line.decode()
                            break
                        # An answer without a token is none.
                        whole = whole or (b"[DONE]" in line and first_s is not None)
                else:
                    why = f"{response.status}: {await response.text()}"
        except aiohttp.ClientError as error:
            whole, why = False, repr(error)
        self.outcomes.append(Outcome(sent, whole, first_s, why))
