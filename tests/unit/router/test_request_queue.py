"""The one queue: order, bounds and shedding, with a clock of its own."""

import asyncio
import contextlib
import gc
import json
import weakref

import pytest

from tandem_engine.router.pods.pod import Endpoint, Pod, Role
from tandem_engine.router.scheduling.caches import PrefillCaches
from tandem_engine.router.scheduling.placement import PrefillPlacement
from tandem_engine.router.scheduling.places import Places
from tandem_engine.router.scheduling.waiter import Waiter
from tandem_engine.router.settings_in_force import parse_settings
from tandem_routing.deadline_queue import Expected, turn_of
from tandem_routing.outstanding import Load
from tandem_routing.pod_choice import Room
from tandem_routing.verdict import Cause
from tests.unit.router.desk import Desk
from tests.unit.router.pool import Pool, decode_pace, settings_document, until


async def test_the_most_urgent_goes_first() -> None:
    desk = Desk()

    await desk.run(relaxed=30.0, urgent=5.0, middling=10.0)

    assert desk.order == ["urgent", "middling", "relaxed"]


async def test_requests_that_cannot_meet_their_ttft_wait_behind_those_that_can() -> None:
    desk = Desk()
    desk.now = 100.0

    await desk.run(late=99.0, too_close=100.5, punctual=110.0)

    assert desk.order == ["punctual", "late", "too_close"]


async def test_a_request_that_only_an_idle_pod_could_serve_on_time_waits_behind() -> None:
    desk = Desk(prefill_requests_per_pod=2)
    # Two seconds of work are at the pod and have only begun.
    (pod,) = desk.fleet.usable(Role.PREFILL)
    for _ in range(2):
        pod.enter(Load(10, work_s=1.0), desk.now)
    tasks = []
    for name, deadline_s in (("too_close", 1.5), ("punctual", 9.0)):
        tasks.append(asyncio.create_task(desk.ask(name, deadline_s=deadline_s)))
        await asyncio.sleep(0)

    desk.waiting.places.release(pod, Load(10, work_s=1.0))
    await asyncio.gather(*tasks)

    assert desk.order == ["punctual", "too_close"]


async def queued_at_the_idler_of_two_pods(desk: Desk) -> list["asyncio.Task[None]"]:
    """Let three wait that will be on time only at `q`: `p` has 20 s of work, `q` one."""
    desk.fleet.upsert(Endpoint(name="q", role=Role.PREFILL, host="h", port=3))
    for pod, work_s in zip(desk.fleet.usable(Role.PREFILL), (10.0, 0.5), strict=True):
        for _ in range(2):
            pod.enter(Load(10, work_s=work_s), desk.now)
    tasks = []
    for name, deadline_s in (("a", 4.0), ("b", 4.5), ("c", 9.0)):
        tasks.append(asyncio.create_task(desk.ask(name, deadline_s=deadline_s, expected_s=0.5)))
        await asyncio.sleep(0)
    return tasks


def at_zero(desk: Desk) -> list[Endpoint]:
    """Let no pod be left, and return those that there were."""
    pods = [pod.endpoint for pod in desk.fleet.pods()]
    desk.fleet.replace(())
    return pods


async def test_the_time_that_a_wake_did_not_take_is_no_time_to_let_others_pass() -> None:
    desk = Desk()
    pods = at_zero(desk)
    first = asyncio.create_task(desk.waiting.admit(desk.waiter(9.0, Expected())))
    await asyncio.sleep(0)
    tasks = [asyncio.create_task(desk.ask("held", deadline_s=100.0, wake_s=90.0))]
    await asyncio.sleep(0)

    desk.now = 5.0
    desk.fleet.replace(pods)
    placement = await first
    desk.now = 6.0
    for name, deadline_s in (("after", 16.0), ("urgent", 14.0)):
        tasks.append(asyncio.create_task(desk.ask(name, deadline_s=deadline_s)))
        await asyncio.sleep(0)
    desk.waiting.places.left_prefill(placement)
    await asyncio.gather(*tasks)

    assert desk.order == ["urgent", "held", "after"]


async def test_a_wake_that_takes_longer_than_is_known_makes_nobody_overdue() -> None:
    desk = Desk()
    pods = at_zero(desk)
    held = asyncio.create_task(desk.ask("held", deadline_s=100.0, wake_s=90.0))
    await asyncio.sleep(0)

    desk.now = 120.0
    assert desk.waiting.queued().overdue == 0

    desk.fleet.replace(pods)
    await held


async def test_a_pod_in_doubt_for_an_instant_makes_nobody_late_for_good() -> None:
    desk = Desk(prefill_requests_per_pod=2)
    tasks = await queued_at_the_idler_of_two_pods(desk)
    q = desk.fleet.usable(Role.PREFILL)[1]

    desk.fleet.doubt(q)
    desk.fleet.trust(q)
    tasks.append(asyncio.create_task(desk.ask("new", deadline_s=20.0, expected_s=0.5)))
    await asyncio.sleep(0)
    desk.waiting.places.release(q, Load(10, work_s=0.5))
    await asyncio.gather(*tasks)

    assert desk.order == ["a", "b", "c", "new"]


async def test_what_looked_late_is_on_time_again_once_less_is_expected_of_it() -> None:
    desk = Desk()
    first = await desk.waiting.admit(desk.waiter(0.0, Expected()))
    expected = Expected(service_s=50.0)
    waiter = Waiter(deadline_s=9.0, tokens=10, expected=lambda: expected, split=True)
    better = asyncio.create_task(desk.waiting.admit(waiter))
    other = asyncio.create_task(desk.ask("other", deadline_s=10.0))
    await asyncio.sleep(0)

    expected = Expected(service_s=1.0)
    desk.now = 1.0
    desk.waiting.places.left_prefill(first)

    placement = await better
    assert not other.done()
    desk.waiting.places.left_prefill(placement)
    await other


async def test_a_request_stays_behind_once_its_bound_has_passed() -> None:
    desk = Desk(prefill_requests_per_pod=2)
    tasks = await queued_at_the_idler_of_two_pods(desk)
    q = desk.fleet.usable(Role.PREFILL)[1]
    desk.now = 4.2

    desk.fleet.doubt(q)
    desk.fleet.trust(q)
    desk.waiting.places.release(q, Load(10, work_s=0.5))
    await asyncio.gather(*tasks)

    assert desk.order == ["c", "a", "b"]


async def test_a_wait_beyond_the_bound_is_overdue_for_a_minute() -> None:
    desk = Desk()
    first = await desk.waiting.admit(desk.waiter(0.0, Expected()))
    tasks = [
        asyncio.create_task(desk.ask(name, deadline_s=s)) for name, s in (("a", 10), ("b", 30))
    ]
    await asyncio.sleep(0)
    seen = []
    for desk.now in (5.0, 20.0, 40.0, 80.0, 100.0):
        seen.append(desk.waiting.queued().overdue)

    assert seen == [0, 1, 2, 1, 0]
    desk.waiting.places.left_prefill(first)
    await asyncio.gather(*tasks)


@pytest.mark.parametrize(
    ("split", "deadline_s"), [(True, 9.0), (True, -1.0), (False, 9.0)], ids=["on time", "late", "n"]
)
async def test_a_request_that_left_is_not_kept_while_others_wait(
    split: bool, deadline_s: float
) -> None:
    desk = Desk()
    first = await desk.waiting.admit(desk.waiter(0.0, Expected()))
    if not split:
        desk.fleet.remove("d")
    patient = asyncio.create_task(desk.ask("patient", deadline_s=99.0))
    late = asyncio.create_task(desk.ask("late", deadline_s=-2.0))
    await asyncio.sleep(0)

    def expected() -> Expected:
        return Expected()

    body = weakref.ref(expected)
    waiter = Waiter(deadline_s=deadline_s, tokens=10, expected=expected, split=split)
    task = asyncio.create_task(desk.waiting.admit(waiter))
    await asyncio.sleep(0)
    desk.fleet.announce()
    task.cancel()
    await asyncio.wait([task])
    await asyncio.sleep(0)
    del expected, waiter, task
    gc.collect()

    assert desk.waiting.requests == 2
    assert body() is None
    desk.fleet.upsert(Endpoint(name="d", role=Role.DECODE, host="h", port=2))
    desk.waiting.places.left_prefill(first)
    await asyncio.gather(patient, late)
    assert desk.order == ["patient", "late"]


async def test_a_waiting_request_leaves_the_line_from_anywhere_in_it() -> None:
    desk = Desk()
    first = await desk.waiting.admit(desk.waiter(0.0, Expected()))
    tasks = {}
    for name, deadline_s in (("a", 5.0), ("b", 5.0), ("c", -1.0), ("d", 7.0), ("e", -2.0)):
        tasks[name] = asyncio.create_task(desk.ask(name, deadline_s=deadline_s))
        await asyncio.sleep(0)
    for name in ("b", "c"):
        tasks[name].cancel()
    await asyncio.gather(tasks["b"], tasks["c"], return_exceptions=True)

    desk.waiting.places.left_prefill(first)
    await asyncio.gather(*(tasks[name] for name in "ade"))

    assert desk.order == ["a", "d", "e"]
    assert desk.waiting.requests == 0


def unknowable() -> Expected:
    raise OverflowError("integer division result too large for a float")


@pytest.mark.parametrize("split", [True, False])
async def test_a_request_of_which_nothing_can_be_expected_fails_alone(split: bool) -> None:
    desk = Desk()
    waiter = Waiter(deadline_s=1.0, tokens=10, expected=unknowable, split=split)

    with pytest.raises(OverflowError):
        await desk.waiting.admit(waiter)

    assert desk.waiting.requests == 0
    await desk.ask("next", deadline_s=9.0)
    assert desk.order == ["next"]


async def test_what_makes_the_queue_look_hears_nothing_of_a_look_that_fails() -> None:
    desk = Desk()
    first = await desk.waiting.admit(desk.waiter(0.0, Expected()))
    # Nobody is asked what is expected of it before there is a decode pod.
    decode = desk.fleet.usable(Role.DECODE)[0].endpoint
    desk.fleet.remove("d")
    waiter = Waiter(deadline_s=1.0, tokens=10, expected=unknowable, split=True)
    unfit = asyncio.create_task(desk.waiting.admit(waiter))
    fit = asyncio.create_task(desk.ask("fit", deadline_s=9.0))
    await asyncio.sleep(0)

    desk.fleet.upsert(decode)
    desk.waiting.places.left_prefill(first)

    with pytest.raises(OverflowError):
        await unfit
    await fit
    assert desk.order == ["fit"]
    assert [pod.requests for pod in desk.fleet.pods()] == [0, 0]


async def test_a_gate_that_cannot_reckon_with_a_request_lets_the_next_one_ask() -> None:
    desk = Gated()
    desk.stream(1)
    expected = Expected(output_tokens=10**400)

    with pytest.raises(OverflowError):
        await desk.waiting.admit(desk.waiter(9.0, expected))

    await desk.ask("next", deadline_s=9.0)
    assert desk.order == ["next"]


async def test_an_unfit_request_gives_its_place_in_a_full_queue_to_the_next() -> None:
    desk = Desk(queued_requests=1)
    first = await desk.waiting.admit(desk.waiter(0.0, Expected()))
    decode = desk.fleet.usable(Role.DECODE)[0].endpoint
    desk.fleet.remove("d")
    waiter = Waiter(deadline_s=1.0, tokens=10, expected=unknowable, split=True)
    unfit = asyncio.create_task(desk.waiting.admit(waiter))
    await asyncio.sleep(0)
    fit = asyncio.create_task(desk.ask("fit", deadline_s=9.0))

    with pytest.raises(OverflowError):
        await unfit

    assert desk.shed == []
    desk.fleet.upsert(decode)
    desk.waiting.places.left_prefill(first)
    await fit


async def test_short_prompts_that_share_a_pass_are_done_with_it() -> None:
    desk = Desk(prefill_requests_per_pod=3)
    (pod,) = desk.fleet.usable(Role.PREFILL)

    for _ in range(3):
        await desk.waiting.admit(desk.waiter(9.0, Expected(service_s=1.0, pass_s=0.75)))

    assert pod.free_s(0.0) == pytest.approx(1.5)


class Gated(Desk):
    """Eight streams keep TPOT; a late request is let in up to seven."""

    def __init__(self) -> None:
        super().__init__(prefill_requests_per_pod=99, decode=decode_pace())
        (self.decode,) = self.fleet.usable(Role.DECODE)

    def stream(self, count: int) -> None:
        for _ in range(count):
            self.decode.enter(Load(10), self.now)

    def end(self, count: int) -> None:
        for _ in range(count):
            self.waiting.places.release(self.decode, Load(10))


async def test_a_late_request_leaves_the_last_place_at_the_gate_to_one_that_is_not() -> None:
    desk = Gated()
    desk.stream(7)
    late = asyncio.create_task(desk.ask("late", deadline_s=-1.0))
    await asyncio.sleep(0)
    assert desk.waiting.held

    await desk.ask("punctual", deadline_s=9.0)
    assert desk.order == ["punctual"]
    desk.end(1)
    await late

    assert desk.order == ["punctual", "late"]


async def test_a_request_that_is_given_up_as_it_is_placed_leaves_its_place_at_the_gate() -> None:
    desk = Gated()
    desk.stream(8)
    task = asyncio.create_task(desk.ask("gone", deadline_s=9.0))
    await asyncio.sleep(0)
    assert desk.waiting.held

    desk.end(1)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task

    assert desk.order == []
    await desk.ask("next", deadline_s=9.0)
    assert desk.order == ["next"]


async def test_a_slow_look_at_the_queue_is_a_wait_for_decode_too() -> None:
    desk = Gated()
    desk.stream(8)

    def slowly() -> Expected:
        desk.now += 1.0
        return Expected(service_s=1.0)

    waiter = Waiter(deadline_s=90.0, tokens=10, expected=slowly, split=True)
    task = asyncio.create_task(desk.waiting.admit(waiter))
    await asyncio.sleep(0)

    assert desk.now >= 1.0
    assert desk.waiting.queued().held_prompt_tokens == 10
    desk.end(1)
    await task


async def test_only_its_own_wait_makes_a_request_one_that_decode_holds_back() -> None:
    desk = Gated()
    desk.stream(8)
    desk.now = 1.0
    held = asyncio.create_task(desk.ask("held", deadline_s=90.0))
    await asyncio.sleep(0)
    desk.now = 31.0
    assert desk.waiting.queued().held_prompt_tokens == 10
    desk.end(1)
    await held
    # A prefill pod that is full, and no gate, keeps the next one waiting.
    desk.settings.current = parse_settings(
        json.dumps(settings_document(limits={"prefill_requests_per_pod": 1}))
    )
    (pod,) = desk.fleet.usable(Role.PREFILL)
    pod.enter(Load(10), desk.now)
    other = asyncio.create_task(desk.ask("other", deadline_s=40.0))
    await asyncio.sleep(0)

    desk.now = 41.0
    queued = desk.waiting.queued()

    assert (queued.requests, queued.held_prompt_tokens) == (1, 0)
    assert (queued.overdue, queued.held_overdue) == (1, 0)
    desk.waiting.places.release(pod, Load(10))
    await other


@pytest.mark.parametrize(
    ("requests", "tokens", "prompt_tokens", "room"),
    [
        (0, 0, 100_000, True),
        (1, 100_000, 100_000, True),
        (2, 3000, 1000, True),
        (2, 3000, 1100, False),
        (40, 4000, 96, True),
        (64, 64, 1, False),
    ],
)
def test_a_pod_takes_two_prompts_of_any_length_and_more_only_if_they_are_short(
    requests: int, tokens: int, prompt_tokens: int, room: bool
) -> None:
    pod = Pod(Endpoint(name="p", role=Role.PREFILL, host="h", port=1))
    pod.requests, pod.tokens = requests, tokens
    most = Room(requests=64, tokens=4096)

    assert most.at([pod], prompt_tokens=prompt_tokens) == ([pod] if room else [])


def test_work_at_a_pod_is_reckoned_from_when_its_last_answer_came() -> None:
    pod = Pod(Endpoint(name="p", role=Role.PREFILL, host="h", port=1))
    one, two = Load(10, work_s=2.0), Load(10, work_s=3.0)
    assert pod.free_s(7.0) == 7.0

    pod.enter(one, 10.0)
    assert pod.free_s(11.0) == 12.0
    pod.enter(two, 11.0)
    assert pod.free_s(11.0) == 15.0
    # The first took longer than expected.
    pod.leave(one, 14.0)
    assert pod.free_s(14.0) == 17.0
    # The second is overdue when a third comes: it is taken to need as long again.
    assert pod.free_s(20.0) == 23.0
    pod.enter(one, 20.0)
    assert pod.free_s(20.0) == 25.0
    assert pod.free_s(21.0) == 27.0
    # With the second done, the third begins.
    pod.leave(two, 22.0)
    assert pod.free_s(22.0) == 24.0
    pod.leave(one, 24.0)
    assert pod.free_s(25.0) == 25.0


def test_work_of_which_nothing_is_known_is_never_overdue() -> None:
    pod = Pod(Endpoint(name="p", role=Role.PREFILL, host="h", port=1))

    pod.enter(Load(10), 10.0)
    pod.enter(Load(10, work_s=2.0), 15.0)

    assert pod.overdue_s(15.0) == 0.0
    assert pod.free_s(15.0) == 17.0


async def test_beyond_its_bound_the_queue_sheds_the_hopeless_first() -> None:
    desk = Desk(queued_requests=2)
    desk.now = 100.0

    await desk.run(late=99.0, punctual=110.0, newcomer=120.0)

    assert desk.shed == ["late"]
    assert desk.order == ["punctual", "newcomer"]


async def test_beyond_its_bound_the_queue_sheds_the_newcomer_when_nobody_is_hopeless() -> None:
    desk = Desk(queued_requests=2)

    await desk.run(one=10.0, two=20.0, newcomer=5.0)

    assert desk.shed == ["newcomer"]


async def test_each_prefill_pod_holds_no_more_than_its_limit(pool: Pool) -> None:
    pool.configure(limits={"prefill_requests_per_pod": 2})
    gate = pool.engines["p0"].script.hold = asyncio.Event()

    tasks = [asyncio.create_task(pool.stream()) for _ in range(5)]
    await until(lambda: pool.router.waiting.requests == 3)
    await pool.engines["p0"].wait_seen(2)

    assert len(pool.engines["p0"].seen) == 2
    assert (await pool.arrivals())["in_system"] == {
        "queued_requests": 3,
        "queued_prompt_tokens": pool.router.waiting.queued().prompt_tokens,
        "held_prompt_tokens": 0,
        "overdue_requests": 0,
        "held_overdue_requests": 0,
        "prefill_requests": 2,
        "decode_requests": 0,
    }
    gate.set()
    await asyncio.gather(*tasks)


async def test_a_higher_limit_is_in_force_at_once(pool: Pool) -> None:
    pool.configure(limits={"prefill_requests_per_pod": 1})
    gate = pool.engines["p0"].script.hold = asyncio.Event()
    tasks = [asyncio.create_task(pool.stream()) for _ in range(3)]
    await until(lambda: pool.router.waiting.requests == 2)

    pool.configure(limits={"prefill_requests_per_pod": 3})

    await pool.engines["p0"].wait_seen(3)
    gate.set()
    await asyncio.gather(*tasks)


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ({"queued_requests": 0, "prefill_requests_per_pod": 1}, "queue_full"),
        ({"concurrent_requests": 1}, "too_many_requests"),
    ],
)
async def test_what_is_too_much_gets_429_and_counts_as_an_arrival_that_was_shed(
    pool: Pool, limits: dict[str, int], code: str
) -> None:
    pool.configure(limits=limits)
    gate = pool.engines["p0"].script.hold = asyncio.Event()
    first = asyncio.create_task(pool.stream())
    await pool.engines["p0"].wait_seen(1)

    status, answer, headers = await pool.post({"model": "tiny", "prompt": "x"})

    assert status == 429
    assert answer["error"]["code"] == code
    assert int(headers["Retry-After"]) >= 1
    assert pool.metric("tandem_router_arrivals_total") == 2
    assert pool.metric("tandem_router_requests_total", outcome="shed") == 1
    assert pool.metric("tandem_router_blame_total", cause="router_queue") == 1
    gate.set()
    await first


async def test_what_a_full_queue_sheds_at_once_is_blamed_on_the_queue(pool: Pool) -> None:
    pool.configure(limits={"queued_requests": 0, "prefill_requests_per_pod": 1})
    for cause, usual_s in ((Cause.ROUTER_QUEUE, 1.0), (Cause.PREFILL, 0.5)):
        pool.router.learned.usual[0][cause].add(usual_s)
    gate = pool.engines["p0"].script.hold = asyncio.Event()
    first = asyncio.create_task(pool.stream())
    await pool.engines["p0"].wait_seen(1)

    status, _, _ = await pool.post({"model": "tiny", "prompt": "x"})

    assert status == 429
    assert pool.metric("tandem_router_blame_total", cause="router_queue") == 1
    gate.set()
    await first


async def test_a_wait_that_is_too_long_ends_with_503(pool: Pool) -> None:
    pool.configure(limits={"prefill_requests_per_pod": 1})
    gate = pool.engines["p0"].script.hold = asyncio.Event()
    first = asyncio.create_task(pool.complete())
    await pool.engines["p0"].wait_seen(1)
    pool.configure(limits={"prefill_requests_per_pod": 1}, timeouts={"first_token_s": 0.1})

    status, answer = await pool.complete()

    assert status == 503
    assert answer["error"]["code"] == "queue_timeout"
    gate.set()
    await first


@pytest.mark.parametrize("left_before", [False, True])
async def test_a_place_is_given_back_once_however_its_request_ends(left_before: bool) -> None:
    desk = Desk()
    [pod] = desk.fleet.usable(Role.PREFILL)
    coming: list[asyncio.Task[PrefillPlacement]] = []

    async def fail() -> None:
        placement = await desk.waiting.admit(desk.waiter(9.0, Expected()))
        try:
            coming.append(asyncio.create_task(desk.waiting.admit(desk.waiter(9.0, Expected()))))
            await asyncio.sleep(0)
            if left_before:
                desk.waiting.places.left_prefill(placement)
            raise ZeroDivisionError
        finally:
            desk.waiting.places.give_back(placement)

    with pytest.raises(ZeroDivisionError):
        await fail()

    assert (await coming[0]).prefill is pod
    assert pod.requests == 1


async def test_a_request_that_is_cancelled_in_its_place_leaves_none_taken() -> None:
    desk = Desk()
    [pod] = desk.fleet.usable(Role.PREFILL)

    async def stay() -> None:
        placement = await desk.waiting.admit(desk.waiter(9.0, Expected()))
        try:
            await asyncio.Event().wait()
        finally:
            desk.waiting.places.give_back(placement)

    task = asyncio.create_task(stay())
    await asyncio.sleep(0.01)
    assert pod.requests == 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert pod.requests == 0
    assert len(desk.waiting.places.coming) == 0


async def test_a_place_given_back_is_free_before_the_queue_looks_for_the_next() -> None:
    desk = Desk()
    [pod] = desk.fleet.usable(Role.PREFILL)
    held_at_a_look: list[int] = []
    places = Places(
        caches=PrefillCaches(),
        clock=lambda: desk.now,
        freed=lambda: held_at_a_look.append(pod.requests),
    )
    placement = places.take(turn_of(desk.waiter(9.0, Expected())), pod)

    places.give_back(placement)

    assert held_at_a_look
    assert not any(held_at_a_look)
