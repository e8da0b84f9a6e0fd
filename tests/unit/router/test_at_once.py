"""A request that finds nobody waiting gets the place that the queue would give it."""

import asyncio
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from tandem_engine.router.pods.pod import Endpoint, Role
from tandem_engine.router.scheduling.placement import PrefillPlacement
from tandem_engine.router.scheduling.waiter import Waiter
from tandem_routing.deadline_queue import AtPod, Expected
from tandem_routing.prefix_index import Prefix
from tandem_routing.rank import FIRST
from tandem_routing.tenant_shares import Tenant
from tests.unit.router.desk import Desk
from tests.unit.router.pool import decode_pace


@dataclass(frozen=True)
class Comes:
    """A request, and what happens after it."""

    tokens: int
    service_s: float
    patience_s: float
    tenant: int
    near: int | None
    split: bool
    leaves: bool
    later_s: float


COMING = st.builds(
    Comes,
    tokens=st.integers(1, 3000),
    service_s=st.sampled_from([0.0, 0.01, 0.5, 4.0]),
    patience_s=st.sampled_from([-1.0, 0.3, 2.0, 60.0]),
    tenant=st.integers(0, 2),
    near=st.none() | st.integers(0, 2),
    split=st.booleans() | st.just(value=True),
    leaves=st.booleans(),
    later_s=st.sampled_from([0.0, 0.005, 1.5]),
)


class Pools(Desk):
    """Three prefill pods of two revisions, and a decode pod of each."""

    def __init__(self, *, gate: bool, overflow: bool) -> None:
        pace = decode_pace(overflow=overflow) if gate else None
        super().__init__(
            prefill_requests_per_pod=6, prefill_tokens_per_pod=4000, decode=pace, tpot_s=0.0128
        )
        self.fleet.replace(
            [
                *(Endpoint(f"p{n}", Role.PREFILL, "h", n, revision="ab"[n % 2]) for n in range(3)),
                *(Endpoint(f"d{n}", Role.DECODE, "h", 9 + n, revision="ab"[n]) for n in range(2)),
            ]
        )
        self.placed: list[PrefillPlacement] = []

    def request(self, one: Comes) -> Waiter:
        near = {}
        if one.near is not None:
            near = {f"p{one.near}": AtPod(one.tokens, max(0, one.tokens - 1), one.service_s / 4)}
        expected = Expected(
            service_s=one.service_s, cold_s=one.service_s, output_tokens=50, near=near
        )
        return Waiter(
            deadline_s=self.now + one.patience_s,
            tokens=one.tokens,
            expected=lambda: expected,
            split=one.split,
            prefix=Prefix((one.tokens % 7, one.tokens % 11), 256.0),
            tenant=Tenant(f"t{one.tenant}"),
        )

    def go_on(self, one: Comes) -> None:
        if one.leaves and self.placed:
            self.waiting.places.give_back(self.placed.pop(0))
        self.now += one.later_s


def shown(placement: PrefillPlacement, waiter: Waiter, desk: Desk) -> tuple[object, ...]:
    pod = placement.prefill
    shares = desk.waiting._lines._shares.of(FIRST)
    served = [shares.served(f"t{n}") for n in range(3)]
    return (
        *(pod and pod.name, placement.load, placement.decode_only, placement.held_share),
        *(waiter.counted_tokens, served, desk.waiting.held, desk.waiting.held_s(desk.now)),
    )


@given(st.lists(COMING, min_size=1, max_size=30), st.booleans(), st.booleans())
def test_it_is_the_place_that_the_queue_would_give(
    coming: list[Comes], gate: bool, overflow: bool
) -> None:
    async def main() -> None:
        quick, queued = (Pools(gate=gate, overflow=overflow) for _ in range(2))
        for one in coming:
            mine, theirs = quick.request(one), queued.request(one)
            placement = quick.waiting.at_once(mine)
            if placement is not None:
                admitted = asyncio.create_task(queued.waiting.admit(theirs))
                await asyncio.sleep(0)
                assert admitted.done()
                found = shown(placement, mine, quick)
                assert found == shown(admitted.result(), theirs, queued)
                quick.placed.append(placement)
                queued.placed.append(admitted.result())
            quick.go_on(one)
            queued.go_on(one)

    asyncio.run(main())


async def test_it_is_the_rule_where_there_is_room() -> None:
    desk = Desk()

    placement = desk.waiting.at_once(desk.waiter(9.0, Expected()))

    assert placement is not None
    assert desk.waiting.at_once(desk.waiter(9.0, Expected())) is None
    desk.waiting.places.give_back(placement)
    assert desk.waiting.at_once(desk.waiter(-1.0, Expected())) is None
    assert desk.waiting.at_once(desk.waiter(9.0, Expected(), split=False)) is None
    assert desk.waiting.at_once(desk.waiter(9.0, Expected())) is not None


async def test_nobody_passes_one_that_waits() -> None:
    desk = Desk()
    first = desk.waiting.at_once(desk.waiter(9.0, Expected()))
    assert first is not None
    waits = asyncio.create_task(desk.waiting.admit(desk.waiter(9.0, Expected(), split=False)))
    behind = asyncio.create_task(desk.waiting.admit(desk.waiter(9.0, Expected())))
    await asyncio.sleep(0)

    assert waits.done()
    assert not behind.done()
    desk.waiting.places.give_back(first)
    await behind
