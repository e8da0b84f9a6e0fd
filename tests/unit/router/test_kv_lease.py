"""KV blocks are used as long as they are certainly a request's own, and not a moment longer."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_engine.router.pods.kv_lease import (
    ENDS_FIELD,
    LEASE_S_FIELD,
    Early,
    LeaseOver,
    PeerOffset,
    usable_until_s,
)
from tests.unit.router.fake_engine import Seen
from tests.unit.router.pool import Pool, until

LEASE_S = 1.8
USABLE_S = 1.5

leg = st.tuples(st.floats(0, 1000), st.floats(0, 60), st.floats(0, 60), st.floats(-4e-4, 4e-4))


def lease(pool: Pool) -> None:
    pool.configure(kv={"lease_s": LEASE_S})


def stamping(pool: Pool, name: str = "p0") -> None:
    """Have a prefill pod tell when its leases end, by a clock that is not the router's."""
    pool.engines[name].script.kv_ends_s = lambda: (
        asyncio.get_running_loop().time() - 5000.0 + LEASE_S
    )


@given(ahead_s=st.floats(-1e6, 1e6), legs=st.lists(leg, min_size=1, max_size=20))
def test_blocks_are_never_taken_to_be_there_for_longer_than_their_lease(
    ahead_s: float, legs: list[tuple[float, float, float, float]]
) -> None:
    clock, now = PeerOffset(), 0.0
    for pause_s, computed_s, on_its_way_s, drift in legs:
        sent_s = now + pause_s
        began_s = sent_s + computed_s
        # The two clocks go at different speeds.
        ahead_s += drift * (began_s - now)
        now = began_s + on_its_way_s
        parameters = {ENDS_FIELD: began_s - ahead_s + 30.0}

        until_s = usable_until_s(parameters, clock=clock, sent_s=sent_s, now=now, lease_s=30.0)

        assert sent_s + 25.0 - 1e-6 <= until_s <= began_s + 25.0 + 1e-6


def test_a_long_prefill_costs_no_lease_once_the_engines_clock_is_known() -> None:
    clock = PeerOffset()
    quick = {ENDS_FIELD: 7000.0 + 30.0}
    usable_until_s(quick, clock=clock, sent_s=9.99, now=10.02, lease_s=30.0)
    long = {ENDS_FIELD: 7060.0 + 30.0}

    until_s = usable_until_s(long, clock=clock, sent_s=20.0, now=70.1, lease_s=30.0)

    assert until_s == pytest.approx(69.99 + 25.0, abs=0.05)


@pytest.mark.parametrize(
    "told", [None, "soon", True, float("nan"), float("inf"), -(10**309), [1.0]]
)
def test_an_engine_that_tells_no_end_is_taken_to_have_finished_at_once(told: object) -> None:
    parameters = {ENDS_FIELD: told}

    until_s = usable_until_s(parameters, clock=PeerOffset(), sent_s=5.0, now=6.0, lease_s=30.0)

    assert until_s == 30.0


def test_a_lease_is_as_long_as_the_engine_says_where_the_settings_changed_since() -> None:
    clock = PeerOffset()
    parameters = {ENDS_FIELD: 7000.0 + 30.0, LEASE_S_FIELD: 30}
    usable_until_s(parameters, clock=clock, sent_s=9.99, now=10.02, lease_s=30.0)
    later = {ENDS_FIELD: 7010.0 + 30.0, LEASE_S_FIELD: 30}

    until_s = usable_until_s(later, clock=clock, sent_s=19.5, now=20.1, lease_s=90.0)

    assert until_s == pytest.approx(19.99 + 25.0, abs=0.05)


def test_a_clock_that_jumped_is_learned_anew() -> None:
    clock = PeerOffset()
    usable_until_s({ENDS_FIELD: 1030.0}, clock=clock, sent_s=0.0, now=0.1, lease_s=30.0)
    ahead = {ENDS_FIELD: 9030.0}

    assert usable_until_s(ahead, clock=clock, sent_s=5.0, now=6.0, lease_s=30.0) == 30.0


def test_what_comes_before_the_first_token_waits_for_it() -> None:
    early: Early | None = Early(10.0)
    assert early is not None

    assert early.passed_on([b"role"], token=False, now=1.0) == ([], early)
    assert early.passed_on([b"token"], token=True, now=2.0) == ([b"role", b"token"], None)


def test_a_first_token_that_comes_when_the_lease_may_be_over_is_not_passed_on() -> None:
    with pytest.raises(LeaseOver):
        Early(10.0).passed_on([b"token"], token=True, now=10.0)


async def test_parameters_held_for_longer_than_the_lease_are_not_used(pool: Pool) -> None:
    lease(pool)
    prefill, decode = pool.engines["p0"], pool.engines["d0"]
    prefill.script.hold = asyncio.Event()
    client = asyncio.create_task(pool.stream())
    await prefill.wait_seen(1)
    pool.show("d0", ready=False)
    prefill.script.hold.set()
    await asyncio.sleep(LEASE_S)

    pool.show("d0")

    assert (await client)[-1] == "[DONE]"
    assert len(prefill.seen) == 2
    assert len(decode.seen) == 1
    assert decode.seen[0].body["kv_transfer_params"]["remote_engine_id"] == "p0"
    assert pool.metric("tandem_router_kv_expired_total", how="held") == 1


async def test_a_decode_pod_that_is_silent_for_the_lease_loses_the_request_to_another(
    pool: Pool,
) -> None:
    await pool.add("d1")
    lease(pool)
    pool.engines["d0"].script.freeze = True

    answer = await pool.stream()

    assert answer[-1] == "[DONE]"
    await asyncio.wait_for(pool.engines["d0"].seen[0].cancelled.wait(), 60)
    assert len(pool.engines["p0"].seen) == 2
    assert "kv_transfer_params" in pool.engines["d1"].seen[0].body
    assert pool.metric("tandem_router_kv_expired_total", how="silent") == 1


async def test_the_only_decode_pod_gets_what_it_has_all_the_time_for_in_the_end(
    pool: Pool,
) -> None:
    lease(pool)
    decode = pool.engines["d0"]
    decode.script.first_token_s = 2 * USABLE_S

    answer = await pool.stream()

    assert [event["choices"][0]["text"] for event in answer[:-1]] == [" t0", " t1", " t2", " t3"]
    assert ["kv_transfer_params" in seen.body for seen in decode.seen] == [True, True, False]
    assert pool.metric("tandem_router_kv_expired_total", how="silent") == 2
    assert pool.metric("tandem_router_decode_only_total", reason="kv_expired") == 1


async def test_lost_blocks_cost_a_request_none_of_its_tries(pool: Pool) -> None:
    lease(pool)
    decode = pool.engines["d0"]
    decode.script.first_token_s = 2 * USABLE_S
    client = asyncio.create_task(pool.stream())
    await decode.wait_seen(1)
    decode.script.first_token_s, decode.script.unpullable = 0.0, frozenset({"p0"})

    answer = await client

    assert [event["choices"][0]["text"] for event in answer[:-1]] == [" t0", " t1", " t2", " t3"]
    assert ["kv_transfer_params" in seen.body for seen in decode.seen] == [True, True, False]


async def test_a_chat_served_anew_begins_once(pool: Pool) -> None:
    await pool.add("d1")
    lease(pool)
    pool.engines["d0"].script.freeze_after = 0

    answer = await pool.stream(path="/v1/chat/completions")

    roles = [event for event in answer[:-1] if "role" in event["choices"][0]["delta"]]
    assert len(roles) == 1
    assert answer[-1] == "[DONE]"
    assert len(pool.engines["d1"].seen) == 1


async def test_the_wait_for_a_silent_decode_pod_is_decodes(pool: Pool) -> None:
    await pool.add("d1")
    pool.configure(kv={"lease_s": LEASE_S}, slo={"ttft_s": 0.1})
    pool.engines["d0"].script.freeze = True

    await pool.stream()
    await pool.idle()

    assert pool.metric("tandem_router_blame_total", cause="decode_admission") == 1


async def test_a_prefill_longer_than_the_lease_is_used_where_its_end_is_known(pool: Pool) -> None:
    lease(pool)
    stamping(pool)
    await pool.stream()
    pool.engines["p0"].script.prefill_s = 2 * LEASE_S

    await pool.stream()

    assert "kv_transfer_params" in pool.engines["d0"].seen[1].body


async def test_a_prefill_longer_than_the_lease_is_not_used_where_its_end_is_not_known(
    pool: Pool,
) -> None:
    lease(pool)
    pool.engines["p0"].script.prefill_s = 2 * LEASE_S

    await pool.stream()

    assert len(pool.engines["p0"].seen) == 1
    assert "kv_transfer_params" not in pool.engines["d0"].seen[0].body
    assert pool.metric("tandem_router_decode_only_total", reason="kv_expired") == 1


def name_of(seen: Seen) -> str:
    """Return the router's name for the lease that a prefill would begin."""
    name: str = seen.body["kv_transfer_params"]["tandem_lease"]
    return name


async def left(client: asyncio.Task[Any]) -> None:
    client.cancel()
    with suppress(asyncio.CancelledError):
        await client


async def test_a_client_that_leaves_between_the_legs_has_its_blocks_given_back(pool: Pool) -> None:
    stamping(pool)
    prefill = pool.engines["p0"]
    prefill.script.hold = asyncio.Event()
    client = asyncio.create_task(pool.stream())
    seen = await prefill.wait_seen(1)
    pool.show("d0", ready=False)
    prefill.script.hold.set()
    await until(lambda: pool.router.learned.prefill_leg_s.value is not None)

    await left(client)

    await until(lambda: prefill.let_go)
    assert prefill.let_go[0]["tandem_let_go"] == name_of(seen)
    assert pool.metric("tandem_router_kv_given_back_total") == 1


async def test_what_a_prefill_pod_finished_for_a_client_that_had_just_left_is_given_back(
    pool: Pool,
) -> None:
    stamping(pool)
    await pool.stream()
    prefill = pool.engines["p0"]
    prefill.script.prefill_s = 30.0
    client = asyncio.create_task(pool.stream())
    seen = await prefill.wait_seen(2)

    await left(client)

    await until(lambda: prefill.let_go)
    assert prefill.let_go == [{"do_remote_prefill": True, "tandem_let_go": name_of(seen)}]


@pytest.mark.parametrize("fault", [{"drop": True}, {"prefill_usage": "none"}])
async def test_blocks_for_an_unreadable_prefill_answer_are_given_back(
    pool: Pool, fault: dict[str, Any]
) -> None:
    stamping(pool)
    await pool.stream()
    prefill = pool.engines["p0"]
    prefill.script = replace(prefill.script, **fault)

    assert (await pool.stream())[-1] == "[DONE]"

    await until(lambda: prefill.let_go)
    assert prefill.let_go[0]["tandem_let_go"] == name_of(prefill.seen[1])


async def test_an_engine_that_names_no_leases_is_not_asked_to_let_any_go(pool: Pool) -> None:
    await pool.stream()
    prefill = pool.engines["p0"]
    prefill.script.prefill_s = 30.0
    client = asyncio.create_task(pool.stream())
    await prefill.wait_seen(2)

    await left(client)
    await pool.idle()

    assert not prefill.let_go


async def test_each_try_has_a_lease_of_its_own(pool: Pool) -> None:
    await pool.add("d1")
    stamping(pool)
    lease(pool)
    pool.engines["d0"].script.freeze = True

    await pool.stream()

    first, second = pool.engines["p0"].seen
    assert name_of(first) != name_of(second)


async def test_blocks_that_no_decode_pod_can_pull_are_given_back_before_the_answer_ends(
    pool: Pool,
) -> None:
    stamping(pool)
    prefill = pool.engines["p0"]
    prefill.script.hold = asyncio.Event()
    client = asyncio.create_task(pool.stream())
    await prefill.wait_seen(1)
    pool.show("d0", ready=False)
    other = await pool.add("d1", revision="b")
    other.script.hold = asyncio.Event()
    prefill.script.hold.set()

    await until(lambda: prefill.let_go)
    assert not client.done()

    other.script.hold.set()
    assert (await client)[-1] == "[DONE]"
    assert len(prefill.let_go) == 1
    assert pool.metric("tandem_router_decode_only_total", reason="no_pair") == 1


async def test_blocks_that_a_decode_pod_may_still_pull_are_given_back_by_that_pod_alone(
    pool: Pool,
) -> None:
    stamping(pool)
    decode = pool.engines["d0"]
    decode.script.hold = asyncio.Event()
    client = asyncio.create_task(pool.stream())
    seen = await decode.wait_seen(1)

    await left(client)

    await until(lambda: decode.let_go)
    kv_params = seen.body["kv_transfer_params"]
    assert decode.let_go == [kv_params | {"tandem_let_go": kv_params["remote_request_id"]}]
    assert not pool.engines["p0"].let_go
    assert pool.metric("tandem_router_kv_given_back_total") == 0


async def test_a_decode_pod_that_failed_is_asked_to_free_its_blocks(pool: Pool) -> None:
    await pool.add("d1")
    stamping(pool)
    pool.engines["d0"].script.statuses = [500]

    await pool.stream()

    await until(lambda: pool.engines["d0"].let_go)
    assert not pool.engines["p0"].let_go
    assert not pool.engines["d1"].let_go


async def test_what_only_unreachable_decode_pods_were_sent_is_given_back_by_the_prefill_pod(
    pool: Pool,
) -> None:
    await pool.add("d1")
    stamping(pool)
    prefill = pool.engines["p0"]
    prefill.script.hold = asyncio.Event()
    client = asyncio.create_task(pool.complete())
    await prefill.wait_seen(1)
    for name in ("d0", "d1"):
        await pool.engines[name].stop()
    prefill.script.hold.set()

    await client

    await until(lambda: prefill.let_go)
    assert len(prefill.let_go) == 1


async def test_blocks_that_were_used_are_not_given_back(pool: Pool) -> None:
    stamping(pool)

    await pool.stream()
    await pool.idle()

    assert not pool.engines["p0"].let_go
    assert not pool.engines["d0"].let_go


async def test_a_decode_pod_with_a_queue_longer_than_the_lease_is_not_taken_for_sick(
    pool: Pool,
) -> None:
    await pool.add("d1")
    pool.show("d1", ready=False)
    # Long enough that a pod silent for it is doubted.
    pool.configure(kv={"lease_s": 4.0}, timeouts={"connect_s": 2.0})
    busy = pool.engines["d0"]
    busy.script.hold = asyncio.Event()
    queued = [asyncio.create_task(pool.stream()) for _ in range(4)]
    await busy.wait_seen(len(queued))
    busy.script.hold = None
    assert (await pool.stream())[-1] == "[DONE]"

    pool.show("d1")
    answers = await asyncio.gather(*queued)

    assert all(answer[-1] == "[DONE]" for answer in answers)
    assert pool.metric("tandem_router_kv_expired_total", how="silent") == len(queued)
    assert not pool.router.fleet.ejection.sick()


async def test_a_decode_pod_that_gets_no_kv_blocks_at_all_is_taken_for_sick(pool: Pool) -> None:
    await pool.add("d1")
    pool.show("d1", ready=False)
    # Long enough that a pod silent for it is doubted.
    pool.configure(kv={"lease_s": 4.0}, timeouts={"connect_s": 2.0})
    cut_off = pool.engines["d0"]
    cut_off.script.hold = asyncio.Event()
    waiting = [asyncio.create_task(pool.stream()) for _ in range(4)]
    await cut_off.wait_seen(len(waiting))

    pool.show("d1")
    await asyncio.gather(*waiting)

    assert [sick.pod.name for sick in pool.router.fleet.ejection.sick()][:1] == ["d0"]
