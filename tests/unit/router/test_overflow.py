"""A prompt that prefill would serve late goes whole to a decode pod with much spare TPOT."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tandem_contracts.router_settings import PaceSettings
from tandem_engine.router.forwarding.flight import LearnedByRouter
from tandem_engine.router.pods.pod import Endpoint, Pod, Role
from tandem_engine.router.scheduling.placement import DecodeOnly, PrefillPlacement
from tandem_routing.deadline_queue import Expected
from tandem_routing.decode_admission import bears
from tandem_routing.outstanding import Load
from tandem_routing.overflow import Whole, slack_for, spare
from tandem_routing.stalls import LONGEST_LIFE_S, Stalls
from tests.unit.router.desk import Desk
from tests.unit.router.pool import Pool as WholePool
from tests.unit.router.pool import decode_pace, until

# Four milliseconds and one more per stream.
PACE = PaceSettings.model_validate(decode_pace(overflow=True))
TPOT_S = 0.020
LOAD = Load(tokens=300, output_tokens=100)
# Of a life of 2 s one tenth is computed: 80 % of the bound in the rest leaves 14.4 ms, 10 streams.
ONE = Whole(prompt_tokens=200, output_tokens=100, compute_s=0.2, deadline_s=10.0)


def decode_pods(*requests: int) -> list[Pod]:
    pods = []
    for index, count in enumerate(requests):
        pod = Pod(Endpoint(name=f"d{index}", role=Role.DECODE, host="h", port=1))
        for _ in range(count):
            pod.enter(LOAD, 0.0)
        pods.append(pod)
    return pods


def chosen(
    pods: list[Pod], whole: Whole = ONE, pace: PaceSettings = PACE, now: float = 0.0
) -> str | None:
    pod = slack_for(whole, spare(pods, pace, now=now, tpot_s=TPOT_S), pace, now=now, tpot_s=TPOT_S)
    return None if pod is None else pod.name


@pytest.mark.parametrize(
    ("inside", "name"), [((9,), "d0"), ((10,), None), ((10, 3, 2), "d2"), ((30, 9), "d1")]
)
def test_the_idlest_pod_takes_it_while_all_inside_keep_tpot_by_a_margin(
    inside: tuple[int, ...], name: str | None
) -> None:
    assert chosen(decode_pods(*inside)) == name


def test_each_choice_of_a_request_is_a_stream() -> None:
    pods = decode_pods(0, 5)
    pods[0].enter(Load(tokens=1000, streams=10, output_tokens=800), 0.0)

    assert chosen(pods[:1]) is None
    assert chosen(pods) == "d1"


def test_prompts_of_late_cost_a_pod_its_slack_for_a_streams_life() -> None:
    pods = decode_pods(7)
    pods[0].stalls.begin(0.2, 5.0)
    # One prompt at a time.
    assert chosen(pods, now=5.5) is None
    pods[0].stalls.end()

    # Two tenths of a life leave 12.8 ms: 8 streams.
    assert chosen(pods, now=5.5) == "d0"
    pods[0].enter(LOAD, 5.5)
    assert chosen(pods, now=5.5) is None
    assert chosen(pods, now=7.1) == "d0"


@pytest.mark.parametrize(
    ("deadline_s", "name"),
    # The prompt, and two steps of ten streams.
    [(0.229, "d0"), (0.227, None), (0.1, None)],
)
def test_only_a_request_that_would_be_on_time_at_a_decode_pod_overflows(
    deadline_s: float, name: str | None
) -> None:
    whole = Whole(prompt_tokens=200, output_tokens=100, compute_s=0.2, deadline_s=deadline_s)

    assert chosen(decode_pods(9), whole) == name


def test_no_request_overflows_while_a_prompts_time_is_not_known() -> None:
    whole = Whole(prompt_tokens=200, output_tokens=100, compute_s=0.0, deadline_s=10.0)

    assert chosen(decode_pods(0), whole) is None


@pytest.mark.parametrize(
    ("pace", "name"),
    [
        ({"overflow": False}, None),
        ({"max_num_seqs": 10}, "d0"),
        ({"max_num_seqs": 9}, None),
        # Ten streams of 300 tokens hold 250 each, with half of their outputs made.
        ({"kv_capacity_tokens": 2640}, "d0"),
        ({"kv_capacity_tokens": 2630}, None),
        ({"kv_capacity_tokens": None}, "d0"),
        # Of another router the same is supposed: two tenths.
        ({"routers": 2}, None),
    ],
)
def test_seats_cache_and_other_routers_are_limits_too(
    pace: dict[str, Any], name: str | None
) -> None:
    known = PaceSettings.model_validate(decode_pace(**{"overflow": True, **pace}))

    assert chosen(decode_pods(9), pace=known) == name


def test_streams_of_other_routers_count() -> None:
    two = PaceSettings.model_validate(decode_pace(overflow=True, routers=2))
    pods = decode_pods(4)
    assert chosen(pods, pace=two) == "d0"

    pods[0].others = 4
    assert chosen(pods, pace=two) is None
    assert chosen(pods) == "d0"


def test_stalls_are_a_share_of_a_streams_life_and_never_all_of_it() -> None:
    stalls = Stalls()
    assert stalls.share(0.0, life_s=2.0) == 0.0
    for at in (0.0, 1.0, 3.0):
        stalls.begin(0.3, at)

    assert stalls.computing == 3
    assert stalls.share(3.0, life_s=2.0) == pytest.approx(0.3)
    assert stalls.share(3.5, life_s=2.0, more_s=0.1, routers=2) == pytest.approx(0.4)
    assert stalls.share(3.5, life_s=2.0, more_s=99.0) == 0.9
    assert stalls.share(9.0, life_s=2.0) == 0.0
    # To ask about a short life or a late hour makes it forget nothing.
    assert stalls.share(3.0, life_s=2.0) == pytest.approx(0.3)


def test_stalls_of_lives_past_are_forgotten() -> None:
    stalls = Stalls()
    for second in range(5000):
        stalls.begin(0.1, float(second))
        stalls.end()

    assert stalls.share(4999.0, life_s=1000.0) == pytest.approx(0.1, rel=0.01)
    assert len(stalls._begun) <= LONGEST_LIFE_S + 1


def test_a_request_for_one_token_does_not_wipe_out_what_streams_stood_still_for() -> None:
    pods = decode_pods(7)
    let_in = 0
    for tenth in range(0, 20, 2):
        while chosen(pods, now=tenth / 10):
            pods[0].stalls.begin(0.2, tenth / 10)
            pods[0].stalls.end()
            let_in += 1
        short = Whole(prompt_tokens=200, output_tokens=1, compute_s=0.2, deadline_s=10.0)
        assert (chosen(pods, short, now=tenth / 10) is None) == (let_in == 2)

    # Streams of 100 tokens live 2 s: two tenths of it leave time for eight.
    assert let_in == 2


def test_the_gate_leaves_room_for_prompts_that_decode_pods_compute() -> None:
    pods = decode_pods(13)
    coming = LOAD

    def borne(now: float) -> bool:
        return bears(PACE, pods, coming, tpot_s=TPOT_S, late=False, now=now)

    assert borne(0.0)
    # A tenth of a life: 17.1 ms instead of 19.
    pods[0].stalls.begin(0.2, 0.0)
    assert not borne(0.0)
    # Only the life of the streams that are there counts.
    short = Load(tokens=201, output_tokens=1)
    assert not bears(PACE, pods, short, tpot_s=TPOT_S, late=False, now=0.1)
    assert not borne(0.1)
    # As streams do, stalls count by the mean of all pods: 18.05 ms.
    pods += decode_pods(13)
    assert borne(0.0)
    del pods[1]
    assert borne(2.1)


class Helped(Desk):
    """A prefill pod that takes two requests of a second each, and a decode pod with slack."""

    def __init__(self) -> None:
        super().__init__(tpot_s=0.5, prefill_requests_per_pod=2, decode=decode_pace(overflow=True))
        (self.prefill,) = self.fleet.usable(Role.PREFILL)
        (self.decode,) = self.fleet.usable(Role.DECODE)

    def ask_for(self, deadline_s: float) -> "asyncio.Task[PrefillPlacement]":
        expected = Expected(service_s=1.0, whole_s=1.0, output_tokens=100)
        return asyncio.create_task(self.waiting.admit(self.waiter(deadline_s, expected)))


async def test_a_request_that_prefill_serves_in_time_does_not_overflow() -> None:
    desk = Helped()

    placements = await asyncio.gather(desk.ask_for(1.5), desk.ask_for(2.5))

    assert [placement.prefill for placement in placements] == [desk.prefill] * 2


async def test_a_request_late_in_this_order_overflows_and_the_others_keep_their_places() -> None:
    desk = Helped()
    await asyncio.gather(desk.ask_for(9.0), desk.ask_for(9.0))
    # Prefill is free at 2 s: the first of these ends at 3, the second at 4, the third at 5.
    first, second, third = (desk.ask_for(4.5) for _ in range(3))
    placement = await third

    assert (placement.prefill, placement.decode) == (None, desk.decode)
    assert placement.decode_only is DecodeOnly.OVERFLOW
    assert not first.done()
    assert not second.done()

    # A request that comes earlier in the order pushes the one that is last beyond its bound.
    urgent = desk.ask_for(3.9)
    await asyncio.sleep(0)
    assert not second.done()
    desk.waiting.places.computed(placement)
    assert (await second).decode is desk.decode
    for task in (first, urgent):
        task.cancel()
    await asyncio.gather(first, urgent, return_exceptions=True)


async def test_no_request_counts_on_a_silent_pod() -> None:
    desk = Helped()
    await desk.ask_for(9.0)
    desk.now = 1.9

    # Nine tenths of a second overdue, it may need as long again.
    assert (await desk.ask_for(3.9)).prefill is desk.prefill
    desk.now = 2.5
    placement = await desk.ask_for(5.0)

    assert placement.decode is desk.decode


async def test_prefill_pods_share_what_waits() -> None:
    desk = Helped()
    desk.fleet.upsert(Endpoint(name="p2", role=Role.PREFILL, host="h", port=3))
    await asyncio.gather(*(desk.ask_for(9.0) for _ in range(4)))

    # Both are free at 2 s: the last of four is done at 4.5.
    tasks = [desk.ask_for(4.5) for _ in range(4)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)
    tasks.append(desk.ask_for(4.6))
    await asyncio.sleep(0)

    assert [task.done() for task in tasks] == [False] * 4 + [True]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_request_that_cannot_overflow_in_time_waits_behind_those_on_time() -> None:
    desk = Helped()
    desk.decode.stalls.begin(1.0, 0.0)
    await asyncio.gather(desk.ask_for(9.0), desk.ask_for(9.0))
    late, punctual = desk.ask_for(1.5), desk.ask_for(9.0)
    await asyncio.sleep(0)
    desk.now = 1.0

    desk.waiting.places.release(desk.prefill, Load(10, work_s=1.0))
    placement = await punctual

    assert placement.prefill is desk.prefill
    assert not late.done()
    late.cancel()
    await asyncio.gather(late, return_exceptions=True)


async def test_a_request_given_up_as_it_overflows_leaves_the_pod_free_for_another() -> None:
    desk = Helped()
    await asyncio.gather(desk.ask_for(9.0), desk.ask_for(9.0))
    desk.decode.stalls.begin(0.0, 0.0)
    task = desk.ask_for(1.5)
    await asyncio.sleep(0)
    desk.decode.stalls.end()
    desk.fleet.announce()
    assert desk.decode.stalls.computing == 1

    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task

    assert desk.decode.stalls.computing == 0


async def test_a_request_that_gave_up_is_skipped_wherever_it_stands_in_line() -> None:
    desk = Helped()
    desk.decode.stalls.begin(0.0, 0.0)
    await asyncio.gather(desk.ask_for(9.0), desk.ask_for(9.0))
    first, gone, last = desk.ask_for(3.0), desk.ask_for(3.1), desk.ask_for(3.2)
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)

    desk.decode.stalls.end()
    desk.fleet.announce()

    assert (await last).decode is desk.decode
    assert not first.done()
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)


def test_one_hiccup_does_not_make_overflow_look_hopeless() -> None:
    learned = LearnedByRouter()

    learned.overflowed("a", first_s=100.0, service_s=1.0)
    learned.overflowed("a", first_s=100.0, service_s=None)

    assert learned.whole_ratio["a"].value == pytest.approx(1.1)


@contextlib.asynccontextmanager
async def busy(pool: WholePool, *, overflow: bool = True) -> AsyncIterator[None]:
    """Let the router know that a prompt takes 0.4 s, and keep the only prefill pod at work."""
    pool.configure(slo={"ttft_s": 0.6}, decode=decode_pace(overflow=overflow))
    for _ in range(4):
        pool.router.learned.service["a"].learn(uncached=3, cached=0, leg_s=0.4)
    pool.router.learned.newest_revision = "a"
    hold = pool.engines["p0"].script.hold = asyncio.Event()
    task = asyncio.create_task(pool.stream())
    await pool.engines["p0"].wait_seen(1)
    yield
    hold.set()
    await task


async def test_a_request_that_overflows_is_served_by_a_decode_pod_alone(
    pool: WholePool, tmp_path: Path
) -> None:
    async with busy(pool):
        answer = await pool.stream()

        assert answer[-1] == "[DONE]"
        assert "kv_transfer_params" not in pool.engines["d0"].seen[-1].body
        assert pool.metric("tandem_router_decode_only_total", reason="overflow") == 1
    await pool.idle()
    records = [json.loads(line) for line in (tmp_path / "timings.jsonl").read_text().splitlines()]
    (whole,) = (record for record in records if record["decode_only"] == "overflow")
    assert (whole["outcome"], whole["prefill_pod"], whole["decode_pod"]) == ("good", None, "d0")
    assert sum(whole["parts_s"].values()) == pytest.approx(whole["ttft_s"])


async def test_with_its_first_token_a_pod_may_take_the_next_prompt(pool: WholePool) -> None:
    async with busy(pool):
        (pod,) = pool.router.fleet.usable(Role.DECODE)
        pool.engines["d0"].script.first_token_s = 0.05
        pool.engines["d0"].script.gap_s = 0.1

        task = asyncio.create_task(pool.stream())
        await until(lambda: pod.stalls.computing == 1)
        await until(lambda: pod.stalls.computing == 0)

        assert not task.done()
    await task


async def test_streams_from_prefill_go_where_no_prompt_is_computed(pool: WholePool) -> None:
    await pool.add("d1")
    d0, d1 = pool.router.fleet.usable(Role.DECODE)
    d1.enter(Load(5000), 0.0)
    d0.stalls.begin(1.0, 0.0)

    await pool.stream()
    assert (len(pool.engines["d0"].seen), len(pool.engines["d1"].seen)) == (0, 1)
    d1.stalls.begin(1.0, 0.0)
    await pool.stream()

    assert (len(pool.engines["d0"].seen), len(pool.engines["d1"].seen)) == (1, 1)


async def test_a_pod_that_refuses_a_whole_request_is_replaced_by_another(pool: WholePool) -> None:
    async with busy(pool):
        await pool.add("d1")
        await pool.engines["d0"].stop()

        answer = await pool.stream()

        assert answer[-1] == "[DONE]"
        assert "kv_transfer_params" not in pool.engines["d1"].seen[-1].body
        (d0,) = (pod for pod in pool.router.fleet.pods() if pod.name == "d0")
        assert d0.stalls.computing == 0


async def test_a_pod_that_leaves_as_it_is_chosen_is_replaced_by_another(pool: WholePool) -> None:
    async with busy(pool):
        await pool.add("d1")
        d0, d1 = pool.router.fleet.usable(Role.DECODE)
        for pod in (d0, d1):
            pod.stalls.begin(0.0, 0.0)
        task = asyncio.create_task(pool.stream())
        await until(lambda: pool.router.waiting.requests == 1)

        d0.stalls.end()
        pool.router.fleet.announce()
        pool.show("d0", leaving=True)

        await task
        assert (len(pool.engines["d0"].seen), len(pool.engines["d1"].seen)) == (0, 1)


async def test_a_client_that_leaves_while_its_prompt_is_computed_frees_the_pod(
    pool: WholePool,
) -> None:
    async with busy(pool):
        (pod,) = pool.router.fleet.usable(Role.DECODE)
        pool.engines["d0"].script.hold = asyncio.Event()
        task = asyncio.create_task(pool.stream())
        await pool.engines["d0"].wait_seen(1)
        assert pod.stalls.computing == 1

        task.cancel()
        await until(lambda: pod.stalls.computing == 0)

        pool.engines["d0"].script.hold.set()


async def test_no_request_overflows_if_decode_pods_take_far_longer_for_prompts(
    pool: WholePool,
) -> None:
    async with busy(pool):
        for _ in range(50):
            pool.router.learned.overflowed("a", first_s=1.6, service_s=0.4)

        task = asyncio.create_task(pool.stream())
        await pool.engines["p0"].wait_seen(2)
    await task

    assert pool.metric("tandem_router_decode_only_total", reason="overflow") is None


async def test_what_a_prompt_takes_at_decode_pods_is_learned(pool: WholePool) -> None:
    async with busy(pool):
        pool.engines["d0"].script.first_token_s = 0.6

        await pool.stream()
        learned = pool.router.learned.whole_ratio["a"]
        await until(lambda: learned.value != 1.0)

        # One of ten, and one that a hiccup cannot make more than four times as long.
        assert learned.value is not None
        assert 1.05 <= learned.value <= 1.3


async def test_no_request_overflows_unless_the_operator_allows_it(pool: WholePool) -> None:
    async with busy(pool, overflow=False):
        task = asyncio.create_task(pool.stream())
        await pool.engines["p0"].wait_seen(2)
    await task

    assert pool.metric("tandem_router_decode_only_total", reason="overflow") is None
