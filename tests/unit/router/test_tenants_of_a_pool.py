"""Routers of one pool tell each other what tenants asked for: a limit holds for all together."""

import asyncio
import json
from functools import partial
from typing import Any

import pytest

from tandem_engine.router.peers.notice import NoticeError
from tandem_engine.router.peers.spent import (
    MOST_SPENT_BYTES,
    SPENT_PATH,
    Spending,
    Spent,
    document_of,
    parse_spent,
)
from tandem_routing.tenant_limits import TenantLimit, TenantLimits
from tandem_routing.tenant_shares import MOST_TENANTS
from tests.unit.router.pool import Pool, until
from tests.unit.router.two_routers import status_of

OF = "X-Tenant-Id"
BODY = {"model": "tiny", "prompt": "one two three"}
SIXTY = TenantLimit(requests=60, tokens=1000)


async def status(pool: Pool, tenant: str = "a") -> int:
    return (await pool.post(BODY, headers={OF: tenant}))[0]


async def until_told(pool: Pool) -> None:
    """Wait until the router has sent what it has to tell of tenants."""
    spending = pool.router.clients.tenants.spending
    await until(lambda: not spending)


async def test_a_limit_holds_for_all_routers_together(pair: tuple[Pool, Pool]) -> None:
    one, other = pair
    for each in pair:
        each.configure(tenants={"header": OF, "requests_per_minute": 30})

    assert [await status(one) for _ in range(30)] == [200] * 30
    # A message takes half a second. Alone, the other router would serve thirty too.
    served = 0
    while await status(other) == 200:
        served += 1
        await asyncio.sleep(0.2)

    assert served < 30
    assert await status(other, "b") == 200


@pytest.mark.parametrize("pair", [("a", "b"), (None, None)], indirect=True)
async def test_without_the_pools_key_each_router_counts_by_itself(
    pair: tuple[Pool, Pool],
) -> None:
    one, other = pair
    for each in pair:
        each.configure(tenants={"header": OF, "requests_per_minute": 1})

    assert [await status(one), await status(one)] == [200, 429]
    await until_told(one)

    assert [await status(other), await status(other)] == [200, 429]


async def test_a_router_without_tenants_hears_of_them_in_vain(pair: tuple[Pool, Pool]) -> None:
    _, other = pair
    answer = partial(status_of, other, SPENT_PATH)

    assert await answer(document(row())) == 204
    assert await answer(document(row()), key=None) == 401
    assert await answer(b"", method="GET") == 405
    assert await answer(document(row(requests=-1))) == 400
    assert await answer(bytes(MOST_SPENT_BYTES + 1)) == 413


def row(**changes: Any) -> dict[str, Any]:
    return {"tenant": "a", "requests": 3, "tokens": -20, **changes}


def document(*rows: dict[str, Any], **changes: Any) -> bytes:
    return json.dumps({"schema": 1, "spent": list(rows), **changes}).encode()


def test_a_message_is_read_as_it_was_written() -> None:
    read = parse_spent(document(row(), row(tenant="other:1f", tokens=7)))

    assert read == [Spent("a", 3, -20), Spent("other:1f", 3, 7)]
    assert parse_spent(document_of(read)) == read


@pytest.mark.parametrize(
    ("raw", "where"),
    [
        (b"{", "the document"),
        (document(schema=2), "schema"),
        (document(more=1), "more"),
        (document(row(tenant="a" * 300)), "tenant"),
        (document(row(requests=-1)), "requests"),
        (document(row(requests=1.5)), "requests"),
        (document(row(tokens=10**15)), "tokens"),
        (document(row(key="sk-1")), "key"),
        (document(*[row()] * (MOST_TENANTS + 1)), "spent"),
    ],
)
def test_what_is_no_such_message_is_refused_whole(raw: bytes, where: str) -> None:
    with pytest.raises(NoticeError, match=where):
        parse_spent(raw)


def test_a_message_has_what_each_tenant_asked_for_since_the_last_one() -> None:
    spending = Spending()
    spending.add("a", requests=1, tokens=100)
    spending.add("a", requests=1, tokens=50)
    spending.add("a", requests=0, tokens=-30)
    spending.add("b", requests=1, tokens=9)
    spending.add("c", requests=0, tokens=0)

    message = spending.take()

    assert message is not None
    assert parse_spent(message) == [Spent("a", 2, 120), Spent("b", 1, 9)]
    assert spending.take() is None


def test_a_message_of_most_tenants_is_one_that_others_take() -> None:
    spending = Spending()
    for number in range(2 * MOST_TENANTS):
        spending.add(f"other:{number:032x}", requests=10**6, tokens=10**11)

    message = spending.take()

    assert message is not None
    assert len(message) <= MOST_SPENT_BYTES
    assert len(parse_spent(message)) == MOST_TENANTS


def test_what_a_tenant_asked_for_elsewhere_counts_even_beyond_its_limit() -> None:
    limits = TenantLimits()

    limits.hear("a", SIXTY, requests=90, tokens=90, now=0.0)

    refusal = limits.ask("a", SIXTY, tokens=1, now=0.0)
    assert refusal is not None
    assert refusal.retry_after_s == 31
    assert limits.ask("a", SIXTY, tokens=1, now=31.0) is None


def test_a_router_that_lies_shuts_no_tenant_out_for_longer_than_a_pool_could_spend() -> None:
    limits = TenantLimits()

    for _ in range(3):
        limits.hear("a", SIXTY, requests=10**7, tokens=10**12, now=0.0)

    refusal = limits.ask("a", SIXTY, tokens=1, now=0.0)
    assert refusal is not None
    assert refusal.retry_after_s <= 32 * 60 + 1
    assert limits.ask("a", SIXTY, tokens=1, now=32 * 60.0 + 1.0) is None


def test_what_was_given_back_elsewhere_is_no_credit() -> None:
    limits = TenantLimits()

    limits.hear("a", SIXTY, requests=0, tokens=-5000, now=0.0)

    assert limits.ask("a", SIXTY, tokens=1000, now=0.0) is None
    assert limits.ask("a", SIXTY, tokens=1, now=0.0) is not None
