"""The router's queue by itself, with a clock of its own."""

import asyncio
import json
from typing import Any

from tandem_engine.router.pods.fleet import EnginePods
from tandem_engine.router.pods.pod import Endpoint, Role
from tandem_engine.router.scheduling.caches import PrefillCaches
from tandem_engine.router.scheduling.request_queue import QueueFull, RequestQueue
from tandem_engine.router.scheduling.waiter import Waiter
from tandem_engine.router.settings_in_force import SettingsHolder, parse_settings
from tandem_routing.deadline_queue import Expected
from tests.unit.router.pool import settings_document


class Desk:
    """A queue before one prefill pod with one slot."""

    def __init__(
        self,
        *,
        decode: Any = None,
        tpot_s: float = 0.0128,
        caches: PrefillCaches | None = None,
        **limits: Any,
    ) -> None:
        self.now = 0.0
        self.fleet = fleet = EnginePods(lambda: self.now)
        self._document = {
            "limits": {"prefill_requests_per_pod": 1, **limits},
            "slo": {"tpot_s": tpot_s},
            **({"decode": decode} if decode else {}),
        }
        self.settings = SettingsHolder()
        self.waiting = RequestQueue(
            fleet=fleet, settings=self.settings, clock=lambda: self.now, caches=caches
        )
        self.configure()
        fleet.replace(
            [
                Endpoint(name="p", role=Role.PREFILL, host="h", port=1),
                Endpoint(name="d", role=Role.DECODE, host="h", port=2),
            ]
        )
        self.order: list[str] = []
        self.shed: list[str] = []

    def configure(self, **changes: Any) -> None:
        """Put settings in force."""
        document = settings_document(**self._document, **changes)
        self.settings.current = parse_settings(json.dumps(document))
        self.fleet.announce()

    async def ask(
        self, name: str, *, deadline_s: float, expected_s: float = 1.0, wake_s: float = 0.0
    ) -> None:
        waiter = self.waiter(deadline_s, Expected(service_s=expected_s))
        waiter.wake_s = wake_s
        try:
            placement = await self.waiting.admit(waiter)
        except QueueFull:
            self.shed.append(name)
            return
        self.order.append(name)
        self.waiting.places.left_prefill(placement)
        self.waiting.places.arrived(placement)

    @staticmethod
    def waiter(deadline_s: float, expected: Expected, *, split: bool = True) -> Waiter:
        return Waiter(deadline_s=deadline_s, tokens=10, expected=lambda: expected, split=split)

    async def run(self, **deadlines_s: float) -> None:
        """Occupy the slot, let all requests queue up, then free it at `self.now`."""
        first = await self.waiting.admit(self.waiter(0.0, Expected()))
        tasks = []
        for name, deadline_s in deadlines_s.items():
            tasks.append(asyncio.create_task(self.ask(name, deadline_s=deadline_s)))
            await asyncio.sleep(0)
        self.waiting.places.left_prefill(first)
        await asyncio.gather(*tasks)
