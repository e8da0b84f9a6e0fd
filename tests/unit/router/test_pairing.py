"""In a rollout each revision's decode pods get what they bear, whatever prefill pods are there."""

import asyncio

from tandem_engine.router.pods.pod import Endpoint, Pod, Role
from tandem_engine.router.scheduling.placement import PrefillPlacement
from tandem_routing.deadline_queue import Expected
from tandem_routing.outstanding import Load
from tests.unit.router.desk import Desk
from tests.unit.router.pool import Pool, decode_pace


class Rollout(Desk):
    """One prefill pod and one decode pod of revision `new`; one and three of `old`.

    Eight streams to a decode pod keep TPOT.
    """

    def __init__(self, *, gate: bool = True) -> None:
        super().__init__(prefill_requests_per_pod=99, decode=decode_pace(gate=gate))
        self.fleet.replace(
            [
                Endpoint(name=name, role=role, host="h", port=1, revision=revision)
                for name, role, revision in (
                    ("p-new", Role.PREFILL, "new"),
                    ("p-old", Role.PREFILL, "old"),
                    ("d-new", Role.DECODE, "new"),
                    *((f"d-old{number}", Role.DECODE, "old") for number in range(3)),
                )
            ]
        )
        self.pods = {pod.name: pod for pod in self.fleet.pods()}

    def ask_for(self, output_tokens: int = 100) -> "asyncio.Task[PrefillPlacement]":
        expected = Expected(service_s=0.01, output_tokens=output_tokens)
        return asyncio.create_task(self.waiting.admit(self.waiter(99.0, expected)))

    async def stream(self) -> Pod | None:
        """Let one request go through prefill at once to the idlest decode pod; `None`: it waits."""
        task = self.ask_for()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
            return None
        placement = task.result()
        assert placement.prefill is not None
        revision = placement.prefill.endpoint.revision
        same = [pod for pod in self.fleet.usable(Role.DECODE) if pod.endpoint.revision == revision]
        pod = min(same, key=lambda pod: pod.tokens)
        pod.enter(Load(110, output_tokens=100), self.now)
        self.waiting.places.left_prefill(placement)
        self.waiting.places.arrived(placement)
        return pod


async def test_no_revision_gets_more_streams_than_its_own_decode_pods_bear() -> None:
    desk = Rollout()

    while await desk.stream() is not None:
        assert max(pod.streams for pod in desk.pods.values()) <= 8

    assert [desk.pods[name].streams for name in ("d-new", "d-old0", "d-old1", "d-old2")] == [8] * 4
    assert desk.waiting.held is False


async def test_what_is_on_its_way_counts_for_the_revision_that_gets_it() -> None:
    desk = Rollout()

    placements = await asyncio.gather(*(desk.ask_for() for _ in range(32)))
    last = desk.ask_for()
    await asyncio.sleep(0)

    prefill = [placement.prefill.name for placement in placements if placement.prefill]
    assert {name: prefill.count(name) for name in ("p-new", "p-old")} == {"p-new": 8, "p-old": 24}
    assert not last.done()
    assert desk.waiting.held
    old = next(p for p in placements if p.prefill is desk.pods["p-old"])
    desk.waiting.places.arrived(old)
    assert (await last).prefill is desk.pods["p-old"]


async def test_among_prefill_pods_alike_the_one_before_the_idler_decode_pods_is_chosen() -> None:
    desk = Rollout(gate=False)

    pods = [await desk.stream() for _ in range(16)]

    assert [desk.pods[name].streams for name in ("d-new", "d-old0", "d-old1", "d-old2")] == [4] * 4
    assert None not in pods


async def test_a_second_try_at_prefill_stays_with_its_revision(bare_pool: Pool) -> None:
    for name, revision in (("p0", "a"), ("p1", "b"), ("p2", "a"), ("d0", "a"), ("d1", "b")):
        await bare_pool.add(name, revision=revision)
    bare_pool.engines["p0"].script.statuses = [500]

    await bare_pool.stream()

    assert [len(bare_pool.engines[name].seen) for name in ("p0", "p1", "p2")] == [1, 0, 1]
