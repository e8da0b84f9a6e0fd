"""`whenLate: Refuse`: who is refused while it waits, and what the router has to know before."""

import asyncio
import weakref
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pytest

from tandem_engine.router.scheduling.placement import PrefillPlacement
from tandem_engine.router.scheduling.request_queue import TooLate
from tandem_routing import foresight
from tandem_routing.class_queue import ClassQueue
from tandem_routing.deadline_queue import Expected
from tandem_routing.foresight import PROBED_EVERY, PROOFS, PROVES_FOR_S, Foresight
from tandem_routing.rank import FIRST, Rank
from tandem_routing.tenant_shares import NO_TENANT, Tenant
from tests.unit.router.desk import Desk
from tests.unit.router.pool import Pool, until

BOUND_S = 1.5


@dataclass(eq=False)
class Late:
    """A request that is set aside as late."""

    entered_s: float = 0.0
    slo_class: str | None = "chat"
    service_s: float = 1.0
    refuse_late: bool = True
    settled: bool = False
    split: bool = True
    tokens: int = 10
    rank: Rank = FIRST
    tenant: Tenant = NO_TENANT

    @property
    def deadline_s(self) -> float:
        return self.entered_s + BOUND_S

    def expects(self) -> Expected:
        return Expected(service_s=self.service_s)


def prove(known: Foresight[Late], count: int = PROOFS, *, service_s: float = 1.0) -> None:
    """Let requests wait until their bound has passed."""
    late = [Late(service_s=service_s) for _ in range(count)]
    assert known.refused(late, now=1.0) == []
    known.refused(late, now=BOUND_S + 0.1)
    for each in late:
        known.ended(each, first_token_s=9.0, now=9.0)


def refuses(known: Foresight[Late], late: Late | None = None, *, now: float = 9.0) -> bool:
    return bool(known.refused([late or Late(now - 1.0)], now=now))


def test_nobody_is_refused_before_the_estimate_has_proven_itself() -> None:
    known: Foresight[Late] = Foresight()

    prove(known, PROOFS - 1)
    assert not refuses(known)
    prove(known, 1)
    assert refuses(known)


def test_one_request_that_was_on_time_after_all_ends_the_refusals() -> None:
    known: Foresight[Late] = Foresight()
    lucky = Late(8.0)
    known.refused([lucky], now=8.5)
    prove(known)
    assert refuses(known)

    known.ended(lucky, first_token_s=9.5, now=12.0)

    assert not refuses(known)


def test_a_client_that_left_before_its_bound_proves_nothing() -> None:
    known: Foresight[Late] = Foresight()
    prove(known, PROOFS - 1)
    left = Late(8.0)
    known.refused([left], now=8.5)

    known.ended(left, first_token_s=None, now=9.0)

    assert not refuses(known)


def test_a_prompt_that_is_too_long_for_its_bound_proves_nothing_about_others() -> None:
    known: Foresight[Late] = Foresight()
    prove(known, PROOFS - 1)

    prove(known, 1, service_s=BOUND_S + 0.1)

    assert not refuses(known)


def test_a_prompt_that_was_only_expected_to_be_too_long_ends_the_refusals() -> None:
    known: Foresight[Late] = Foresight()
    prove(known)
    short = Late(8.0, service_s=BOUND_S + 0.1)
    known.refused([short], now=8.5)

    known.ended(short, first_token_s=9.0, now=12.0)

    assert not refuses(known)


def test_prompts_that_are_too_long_are_not_the_ones_that_are_served_as_a_proof() -> None:
    known: Foresight[Late] = Foresight()
    prove(known)

    served = 0
    for _ in range(PROBED_EVERY):
        refuses(known, Late(8.0, service_s=BOUND_S + 0.1))
        served += not refuses(known)

    assert served == 1


def test_nothing_is_kept_of_requests_that_have_ended() -> None:
    known: Foresight[Late] = Foresight()
    late = [Late() for _ in range(3)]
    kept = [weakref.ref(each) for each in late]
    known.refused(late, now=1.0)

    while late:
        known.ended(late.pop(), first_token_s=1.2, now=1.3)

    assert [each() for each in kept] == [None, None, None]


def test_some_are_served_all_the_same_so_that_the_proof_is_renewed() -> None:
    known: Foresight[Late] = Foresight()
    prove(known)

    assert sum(not refuses(known) for _ in range(3 * PROBED_EVERY)) == 3


def test_a_proof_does_not_last_for_ever() -> None:
    known: Foresight[Late] = Foresight()
    prove(known)

    assert refuses(known, now=PROVES_FOR_S)
    assert not refuses(known, now=PROVES_FOR_S + 2.0)


@pytest.mark.parametrize(
    "kept",
    [
        pytest.param(Late(8.0, slo_class="batch"), id="another class"),
        pytest.param(Late(8.0, refuse_late=False), id="served late"),
        pytest.param(Late(8.0, settled=True), id="left already"),
        pytest.param(Late(8.0, service_s=BOUND_S + 0.1), id="too long for its bound"),
    ],
)
def test_who_is_not_refused(kept: Late) -> None:
    known: Foresight[Late] = Foresight()
    prove(known)

    assert not refuses(known, kept)


class Busy:
    """A queue whose only slot is taken, where one late request is proof enough."""

    def __init__(self) -> None:
        self.desk = Desk()
        self.configure(default=True)
        self.tasks: list[asyncio.Task[PrefillPlacement]] = []

    def configure(self, **refuse_late: bool) -> None:
        slo = {"ttft_s": BOUND_S, "tpot_s": 5.0}
        self.desk.configure(
            classes=[
                {"name": name, "slo": slo, "refuse_late": refuses}
                for name, refuses in refuse_late.items()
            ]
        )

    async def comes(
        self, service_s: float = 1.0, *, bound_s: float = BOUND_S, wake_s: float = 0.0
    ) -> asyncio.Task[PrefillPlacement]:
        deadline_s = self.desk.now + wake_s + bound_s
        waiter = Desk.waiter(deadline_s, Expected(service_s=service_s))
        waiter.wake_s = wake_s
        waiter.slo_class, waiter.refuse_late = "default", True
        task = asyncio.create_task(self.desk.waiting.admit(waiter))
        self.tasks.append(task)
        await asyncio.sleep(0)
        return task

    async def look(self, now: float) -> None:
        self.desk.now = now
        self.desk.waiting.pump()
        await asyncio.sleep(0)


@pytest.fixture
async def busy(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Busy]:
    monkeypatch.setattr(foresight, "PROOFS", 1)
    made = Busy()
    # Of the one in the slot nothing is known: any moment may be its last.
    await made.comes(0.0)
    await made.comes()
    await made.look(1.0)
    await made.look(2.0)
    yield made
    for task in made.tasks:
        task.cancel()
    await asyncio.gather(*made.tasks, return_exceptions=True)


async def test_a_request_is_refused_as_soon_as_it_cannot_be_on_time(busy: Busy) -> None:
    task = await busy.comes()

    await busy.look(2.4)
    assert not task.done()
    await busy.look(2.6)

    late = task.exception()
    assert isinstance(late, TooLate)
    assert late.retry_after_s == 1
    assert busy.desk.waiting.requests == 1


async def test_a_client_is_told_to_wait_for_all_that_can_be_on_time(busy: Busy) -> None:
    for _ in range(20):
        await busy.comes(bound_s=100.0)
    task = await busy.comes()

    await busy.look(2.6)

    late = task.exception()
    assert isinstance(late, TooLate)
    assert late.retry_after_s == 20


async def test_a_look_asks_once_what_waits_however_many_it_refuses(busy: Busy) -> None:
    asked: list[int] = []
    work_s = ClassQueue.work_s

    def counted(queue: ClassQueue[Any], now: float) -> float:
        asked.append(1)
        return work_s(queue, now)

    for _ in range(5):
        await busy.comes()
    with patch.object(ClassQueue, "work_s", counted):
        await busy.look(2.6)

    assert sum(task.done() for task in busy.tasks) == 1 + 5
    assert len(asked) == 1


async def test_a_request_is_refused_although_nothing_else_happens(busy: Busy) -> None:
    task = await busy.comes()

    busy.desk.now = 2.6
    await until(task.done)

    assert isinstance(task.exception(), TooLate)


async def test_a_request_that_was_late_before_there_was_a_proof_is_served(busy: Busy) -> None:
    await busy.look(2.6)

    assert not any(task.done() for task in busy.tasks[1:])


@pytest.mark.parametrize(
    "classes", [{"default": False}, {"default": False, "other": True}, {"other": True}]
)
async def test_a_class_that_is_edited_to_serve_has_no_waiting_request_refused(
    busy: Busy, classes: dict[str, bool]
) -> None:
    task = await busy.comes()

    busy.configure(**classes)
    await busy.look(2.6)

    assert not task.done()


async def test_the_wait_for_a_wake_makes_no_prompt_short_enough_for_its_bound(busy: Busy) -> None:
    pods = [pod.endpoint for pod in busy.desk.fleet.pods()]
    busy.desk.fleet.replace([])
    first = await busy.comes(wake_s=60.0)
    long = await busy.comes(BOUND_S + 1.0, wake_s=60.0)
    busy.desk.now = 30.0

    busy.desk.fleet.replace(pods)
    await asyncio.sleep(0)

    assert first.done()
    assert not long.done()


async def test_a_client_that_has_left_is_not_refused(busy: Busy) -> None:
    task = await busy.comes()

    task.cancel()
    await busy.look(2.6)
    await asyncio.gather(task, return_exceptions=True)

    assert task.cancelled()
    assert busy.desk.waiting.requests == 1


async def test_a_refused_client_is_told_why_and_counts_as_late_demand(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foresight, "PROOFS", 1)
    slo = {"ttft_s": 0.5, "tpot_s": 5.0}
    pool.configure(
        classes=[{"name": "default", "slo": slo, "refuse_late": True}],
        limits={"prefill_requests_per_pod": 1},
    )
    pool.engines["p0"].script.prefill_s = 0.4
    for _ in range(8):
        pool.router.learned.service["a"].learn(uncached=3, cached=0, leg_s=0.4)
    pool.router.learned.newest_revision = "a"
    body = {"model": "tiny", "prompt": "one two three"}

    first = await asyncio.gather(*(pool.post(body) for _ in range(4)))
    answers = await asyncio.gather(*(pool.post(body) for _ in range(4)))
    await pool.idle()

    status, answer, headers = max(answers, key=lambda each: each[0])
    assert {status for status, _, _ in first} <= {200, 429}
    assert (status, answer["error"]["code"]) == (429, "too_late")
    assert answer["error"]["message"] == (
        "The request cannot keep the TTFT bound of 0.5 s of the class 'default' any more;"
        f" try again after {headers['Retry-After']} s."
    )
    refused = sum(status == 429 for status, _, _ in (*first, *answers))
    report = await pool.arrivals()
    rows = [row for _, row in report["finished"]]
    assert sum(sum(requests) for _, requests, _, _ in report["arrivals"]) == 8
    assert sum(row["finished"] for row in rows) == 8
    assert sum(row["shed"] for row in rows) == refused
    counted = pool.metric(
        "tandem_router_class_requests_total", slo_class="default", outcome="too_late"
    )
    assert counted == refused
    assert pool.metric("tandem_router_blame_total", cause="router_queue") >= refused
