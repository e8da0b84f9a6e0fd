"""The router admits no request that decode pods could serve only by making every stream late."""

import asyncio
from typing import Any

import pytest

from tandem_contracts.router_settings import PaceSettings
from tandem_engine.router.pods.pod import Endpoint, Pod, Role
from tandem_engine.router.probing.polls import DecodeReads
from tandem_engine.router.scheduling.placement import DecodeOnly
from tandem_engine.router.stopwatch import Stopwatch
from tandem_routing.deadline_queue import Expected
from tandem_routing.decode_admission import bears
from tandem_routing.outstanding import Load
from tests.unit.router.desk import Desk
from tests.unit.router.pool import Pool as Whole
from tests.unit.router.pool import decode_pace, until

# Four milliseconds and one more per stream: 16 streams keep 95 % of 21.06 ms, 17 do not.
PACE = PaceSettings.model_validate(decode_pace())
TPOT_S = 0.0211
ONE = Load(tokens=300, output_tokens=100)


def decode_pods(*requests: int, tokens: int = 300) -> list[Pod]:
    pods = []
    for index, count in enumerate(requests):
        pod = Pod(Endpoint(name=f"d{index}", role=Role.DECODE, host="h", port=1))
        for _ in range(count):
            pod.enter(Load(tokens, output_tokens=100), 0.0)
        pods.append(pod)
    return pods


def borne(pods: list[Pod], one: Load = ONE, pace: PaceSettings = PACE, **how: Any) -> bool:
    return bears(pace, pods, one, **{"tpot_s": TPOT_S, "late": False, "now": 0.0, **how})


@pytest.mark.parametrize(("inside", "room"), [(0, True), (15, True), (16, False), (40, False)])
def test_one_stream_more_is_let_in_while_all_keep_tpot(inside: int, room: bool) -> None:
    assert borne(decode_pods(inside)) is room


def test_streams_count_by_the_mean_of_all_pods() -> None:
    assert borne(decode_pods(26, 4))
    assert not borne(decode_pods(26, 8))


def test_what_prefill_pods_have_comes_too() -> None:
    three = Load(tokens=900, streams=3, output_tokens=300)

    assert borne(decode_pods(12), underway=three)
    assert not borne(decode_pods(13), underway=three)


def test_each_choice_of_a_request_is_a_stream() -> None:
    pods = decode_pods(0)
    pods[0].enter(Load(tokens=1000, streams=8, output_tokens=800), 0.0)
    eight = Load(tokens=1000, streams=8, output_tokens=800)

    assert borne(pods, eight)
    assert not borne(pods, eight, underway=ONE)
    pods[0].leave(eight, 0.0)
    assert borne(pods, eight, underway=eight)


def test_a_stream_without_a_seat_at_its_pod_blocks_no_other_pod() -> None:
    pods = decode_pods(0, 0, 8)
    pods[0].enter(Load(tokens=200_000, streams=2000, output_tokens=100_000), 0.0)
    pace = PaceSettings.model_validate(decode_pace(max_num_seqs=32))

    assert borne(pods, pace=pace)
    assert not borne(pods[:1], pace=pace)


def test_streams_of_other_routers_count() -> None:
    pods, two = decode_pods(10), PaceSettings.model_validate(decode_pace(routers=2))
    pods[0].others = 5
    assert borne(pods, pace=two)

    pods[0].others = 6
    assert not borne(pods, pace=two)
    # Where there are no others, the engine's count is merely late.
    assert borne(pods)


def test_a_late_request_takes_none_of_the_last_places() -> None:
    # Ninety percent of the bound: 14 streams.
    assert borne(decode_pods(13), late=True)
    assert not borne(decode_pods(14), late=True)
    assert borne(decode_pods(14))


@pytest.mark.parametrize(
    ("pace", "inside", "room"),
    [
        ({"max_num_seqs": 8}, 7, True),
        ({"max_num_seqs": 8}, 8, False),
        # Streams of 300 tokens hold 250 on average, with half of their outputs made.
        ({"kv_capacity_tokens": 2640}, 9, True),
        ({"kv_capacity_tokens": 2630}, 9, False),
        ({"kv_capacity_tokens": None}, 15, True),
        ({"step_s": [0.004, 0.0, 0.000004]}, 15, True),
        ({"step_s": [0.004, 0.0, 0.000004]}, 16, False),
    ],
)
def test_seats_and_cache_are_limits_too(pace: dict[str, Any], inside: int, room: bool) -> None:
    known = PaceSettings.model_validate(decode_pace(**pace))

    assert borne(decode_pods(inside), pace=known) is room


def test_a_bound_that_no_stream_keeps_holds_no_request_back() -> None:
    assert borne(decode_pods(40), tpot_s=0.003)
    assert not borne(decode_pods(64), tpot_s=0.003)


def test_a_giant_prompt_on_its_way_holds_back_requests_that_could_keep_tpot() -> None:
    pace = PaceSettings.model_validate(
        decode_pace(step_s=[0.004, 0.0001, 1e-7], kv_capacity_tokens=None, max_num_seqs=256)
    )
    giant = Load(tokens=400_000, output_tokens=100)
    pods = decode_pods(100, tokens=500)
    assert borne(pods, pace=pace)

    assert not borne(pods, pace=pace, underway=giant)
    # It could not keep TPOT alone.
    assert borne(pods, giant, pace)


def test_an_empty_pod_takes_whatever_comes() -> None:
    huge = Load(tokens=200_000, output_tokens=1)

    assert borne(decode_pods(0), huge)


def test_an_idle_fleet_takes_a_request_with_more_answers_than_it_has_seats() -> None:
    pace = PaceSettings.model_validate(decode_pace(max_num_seqs=8))
    sixteen = Load(tokens=1000, streams=16, output_tokens=800)

    assert borne(decode_pods(0), sixteen, pace)
    assert not borne(decode_pods(1), sixteen, pace)


def test_a_stopwatch_adds_up_the_stretches() -> None:
    watch = Stopwatch()
    for on, now in ((True, 1.0), (True, 2.0), (False, 4.0), (False, 5.0), (True, 10.0)):
        watch.turn(on=on, now=now)

    assert watch.total_s(11.5) == pytest.approx(4.5)
    assert watch.running


async def test_a_request_waits_until_a_stream_ends_and_the_wait_is_decodes_fault(
    pool: Whole,
) -> None:
    pool.configure(slo={"ttft_s": 1.0, "tpot_s": 0.0055}, decode=decode_pace())
    await pool.stream()
    hold = pool.engines["d0"].script.hold = asyncio.Event()
    first = asyncio.create_task(pool.stream())
    await pool.engines["d0"].wait_seen(2)

    second = asyncio.create_task(pool.stream())
    await until(lambda: pool.metric("tandem_router_held_requests") == 1)
    inside = (await pool.arrivals())["in_system"]
    assert inside["queued_requests"] == 1
    assert inside["held_prompt_tokens"] == inside["queued_prompt_tokens"] > 0
    assert len(pool.engines["p0"].seen) == 2
    # Past the bound, which the first request of all keeps on a busy machine too.
    await asyncio.sleep(1.2)
    hold.set()
    await asyncio.gather(first, second)
    await pool.idle()

    assert pool.metric("tandem_router_held_requests") == 0
    assert (await pool.arrivals())["in_system"]["held_prompt_tokens"] == 0
    # The first was late at the engine, the second in the queue in front of it.
    assert pool.metric("tandem_router_blame_total", cause="decode_admission") == 2


async def test_what_a_full_queue_sheds_while_decode_pods_hold_it_up_is_decodes_fault(
    pool: Whole,
) -> None:
    pool.configure(slo={"tpot_s": 0.0055}, decode=decode_pace(), limits={"queued_requests": 1})
    await pool.stream()
    hold = pool.engines["d0"].script.hold = asyncio.Event()
    first = asyncio.create_task(pool.stream())
    await pool.engines["d0"].wait_seen(2)
    second = asyncio.create_task(pool.stream())
    await until(lambda: pool.metric("tandem_router_held_requests") == 1)

    status, answer, _ = await pool.post({"model": "tiny", "prompt": "x"})

    assert (status, answer["error"]["code"]) == (429, "queue_full")
    assert pool.metric("tandem_router_blame_total", cause="decode_admission") == 1
    hold.set()
    await asyncio.gather(first, second)


@pytest.mark.parametrize(("told", "held"), [(900, 1), (None, 0)])
async def test_before_a_request_has_ended_outputs_are_as_long_as_the_operator_says(
    pool: Whole, told: int | None, held: int
) -> None:
    # Two streams of 900 tokens in the end: 900 together on average, more than 95 % of the cache.
    pool.configure(decode=decode_pace(kv_capacity_tokens=900, output_tokens=told))
    hold = pool.engines["d0"].script.hold = asyncio.Event()
    tasks = [asyncio.create_task(pool.stream()) for _ in range(2)]
    await pool.engines["p0"].wait_seen(2 - held)
    await pool.engines["d0"].wait_seen(2 - held)

    await until(lambda: pool.metric("tandem_router_held_requests") == held)
    hold.set()
    await asyncio.gather(*tasks)


async def test_every_request_is_admitted_while_the_engines_speed_is_unknown(pool: Whole) -> None:
    pool.configure(slo={"tpot_s": 0.0055})
    hold = pool.engines["d0"].script.hold = asyncio.Event()

    tasks = [asyncio.create_task(pool.stream()) for _ in range(3)]

    await pool.engines["d0"].wait_seen(3)
    hold.set()
    await asyncio.gather(*tasks)


async def test_every_request_is_admitted_with_the_gate_off(pool: Whole) -> None:
    pool.configure(slo={"tpot_s": 0.0055}, decode=decode_pace(gate=False))
    hold = pool.engines["d0"].script.hold = asyncio.Event()

    tasks = [asyncio.create_task(pool.stream()) for _ in range(3)]

    await pool.engines["d0"].wait_seen(3)
    hold.set()
    await asyncio.gather(*tasks)


async def test_waiting_requests_are_admitted_once_the_pace_is_withdrawn(pool: Whole) -> None:
    pool.configure(slo={"tpot_s": 0.0055}, decode=decode_pace())
    hold = pool.engines["d0"].script.hold = asyncio.Event()
    tasks = [asyncio.create_task(pool.stream()) for _ in range(3)]
    await until(lambda: pool.metric("tandem_router_held_requests") == 2)

    pool.configure(slo={"tpot_s": 0.0055}, decode=None)

    await pool.engines["d0"].wait_seen(3)
    hold.set()
    await asyncio.gather(*tasks)


async def test_a_request_that_never_reaches_decode_leaves_its_place(pool: Whole) -> None:
    pool.configure(slo={"tpot_s": 0.0055}, decode=decode_pace())
    hold = pool.engines["p0"].script.hold = asyncio.Event()
    first = asyncio.create_task(pool.stream())
    await pool.engines["p0"].wait_seen(1)
    second = asyncio.create_task(pool.stream())
    await until(lambda: pool.metric("tandem_router_held_requests") == 1)

    first.cancel()
    hold.set()

    assert (await second)[-1] == "[DONE]"


async def test_requests_of_other_routers_are_read_off_the_engine(pool: Whole) -> None:
    hold = pool.engines["d0"].script.hold = asyncio.Event()
    own = asyncio.create_task(pool.stream())
    await pool.engines["d0"].wait_seen(1)
    pool.engines["d0"].metrics = (
        'vllm:num_requests_running{engine="0"} 4.0\n'
        'vllm:num_requests_waiting{engine="0"} 2.0\n'
        'vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 2.0\n'
    )
    (pod,) = pool.router.fleet.usable(Role.DECODE)
    reads = DecodeReads(
        fleet=pool.router.fleet,
        upstream=pool.router._upstream,
        learned=pool.router.learned,
    )

    await reads.scrape([pod])
    assert pod.others == 5
    # Each choice of a request is one to the engine.
    pod.enter(Load(tokens=40, streams=4), 0.0)
    await reads.scrape([pod])
    assert pod.others == 1
    pod.leave(Load(tokens=40, streams=4), 0.0)

    pool.engines["d0"].metrics = "broken"
    await reads.scrape([pod])
    assert pod.others == 0
    hold.set()
    await own


USES_NO_PREFILL_POD: dict[str, dict[str, Any]] = {
    "several answers": {"n": 2},
    "several prompts": {"prompt": ["one", "two"]},
    "no output": {"max_tokens": 0},
    "echo with logprobs": {"echo": True, "logprobs": 1},
    "forced tool": {"tool_choice": "required"},
}


@pytest.mark.parametrize("fields", USES_NO_PREFILL_POD.values(), ids=USES_NO_PREFILL_POD)
async def test_a_request_without_a_prefill_pod_waits_at_the_gate_too(
    pool: Whole, fields: dict[str, Any]
) -> None:
    # One stream keeps the bound, two do not.
    pool.configure(slo={"tpot_s": 0.0055}, decode=decode_pace(), timeouts={"connect_s": 10.0})
    hold = pool.engines["d0"].script.hold = asyncio.Event()
    first = asyncio.create_task(pool.stream())
    await pool.engines["d0"].wait_seen(1)

    tasks = [asyncio.create_task(pool.stream(**fields)) for _ in range(5)]
    await until(lambda: pool.metric("tandem_router_held_requests") == 5)
    inside = len(pool.engines["d0"].seen)
    hold.set()
    await asyncio.gather(first, *tasks)

    assert inside == 1
    assert pool.metric("tandem_router_decode_only_total", reason="unsupported") == 5


async def test_without_prefill_pods_the_gate_holds_all_the_same(bare_pool: Whole) -> None:
    pool = bare_pool
    await pool.add("d0")
    pool.configure(slo={"tpot_s": 0.0055}, decode=decode_pace(), timeouts={"connect_s": 10.0})
    hold = pool.engines["d0"].script.hold = asyncio.Event()

    tasks = [asyncio.create_task(pool.stream()) for _ in range(5)]
    await until(lambda: pool.metric("tandem_router_held_requests") == 4)
    await pool.engines["d0"].wait_seen(1)
    inside = len(pool.engines["d0"].seen)
    hold.set()
    await asyncio.gather(*tasks)

    assert inside == 1
    assert pool.metric("tandem_router_decode_only_total", reason="no_prefill") == 5


@pytest.mark.parametrize("whole_first", [True, False])
async def test_of_those_at_the_gate_the_more_urgent_goes_first_whichever_pods_it_uses(
    *, whole_first: bool
) -> None:
    desk = Desk(decode=decode_pace(), tpot_s=0.0055)
    (decode,) = desk.fleet.usable(Role.DECODE)
    decode.enter(ONE, 0.0)
    whole = desk.waiter(5.0 if whole_first else 9.0, Expected(output_tokens=100), split=False)
    other = desk.waiter(7.0, Expected(output_tokens=100))
    tasks = [asyncio.create_task(desk.waiting.admit(waiter)) for waiter in (other, whole)]
    await asyncio.sleep(0)
    assert desk.waiting.held

    desk.waiting.places.release(decode, ONE)
    await asyncio.sleep(0)

    assert [task.done() for task in tasks] == [not whole_first, whole_first]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_request_that_needs_no_prefill_pod_does_not_wait_for_one() -> None:
    desk = Desk()
    await desk.waiting.admit(desk.waiter(1.0, Expected()))
    waiting = asyncio.create_task(desk.waiting.admit(desk.waiter(2.0, Expected())))
    await asyncio.sleep(0)

    placement = await desk.waiting.admit(desk.waiter(9.0, Expected(), split=False))

    assert placement.decode_only is DecodeOnly.UNSUPPORTED
    assert not waiting.done()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
