"""Tenants at a real router: the name of each, its limits, and the order in a flood."""

import asyncio
import hashlib
import json
from typing import Any

import pytest

from tandem_contracts.arrivals import ArrivalsReport
from tandem_contracts.router_settings import OTHER_TENANTS as OTHER
from tandem_contracts.router_settings import RouterSettings
from tandem_engine.router.http.tenant_desk import KnownTenant, client_of
from tandem_routing.rank import FIRST
from tandem_routing.tenant_shares import NO_TENANT
from tests.unit.router.fake_engine import Script
from tests.unit.router.pool import Pool, settings_document, until

KEY = "sk-acme"
DIGEST = "sha256:" + hashlib.sha256(KEY.encode()).hexdigest()
ACME = {"name": "acme", "keys": [DIGEST], "weight": 3.0}
BODY = {"model": "tiny", "prompt": "one two three"}
OF = "X-Tenant-Id"


def told(headers: dict[str, str], key: str | None = None, **tenants: Any) -> KnownTenant:
    settings = RouterSettings.model_validate(settings_document(tenants=tenants))
    credentials = None if key is None else f"Bearer {key}"
    found = client_of(headers, settings, credentials=credentials)
    assert found is not None
    return found


def test_a_pool_without_tenants_has_none() -> None:
    settings = RouterSettings.model_validate(settings_document())

    assert client_of({OF: "acme"}, settings, credentials=KEY) is None


def test_a_key_tells_the_tenant() -> None:
    found = told({}, KEY, named=[ACME])

    assert (found.label, found.tenant.name, found.tenant.weight) == ("acme", "acme", 3.0)


def test_a_header_tells_the_tenant_before_the_key_and_only_if_the_pool_names_it() -> None:
    headers = {OF: "acme"}

    assert told(headers, named=[ACME], header=OF).label == "acme"
    assert told(headers, named=[ACME]).label == OTHER
    assert told({OF: "another"}, KEY, named=[ACME], header=OF).label == OTHER


def test_tenants_that_the_pool_does_not_name_are_told_apart() -> None:
    one, same, other = (told({}, key) for key in ("sk-1", "sk-1", "sk-2"))

    assert one.tenant == same.tenant != other.tenant
    assert one.label == other.label == OTHER


def test_tenants_that_the_pool_does_not_name_may_share_all() -> None:
    one, other = (told({}, key, others="shared") for key in ("sk-1", "sk-2"))

    assert one.tenant == other.tenant == NO_TENANT


def test_requests_that_name_no_tenant_are_of_one() -> None:
    assert told({}).tenant == told({}, header=OF).tenant == NO_TENANT


@pytest.mark.parametrize("name", ["acme", DIGEST, "other:x", "a" * 8000, ""])
def test_a_header_takes_no_room_and_no_name_that_is_not_its_own(name: str) -> None:
    found = told({OF: name}, named=[], header=OF)

    assert len(found.tenant.name) < 64
    assert found.tenant.name not in (name, DIGEST) or found.tenant == NO_TENANT


async def test_a_tenant_beyond_its_limit_gets_429_with_the_time_to_come_again(
    pool: Pool,
) -> None:
    pool.configure(tenants={"header": OF, "requests_per_minute": 2})

    statuses = [(await pool.post(BODY, headers={OF: "a"}))[0] for _ in range(2)]
    status, answer, headers = await pool.post(BODY, headers={OF: "a"})
    other, _, _ = await pool.post(BODY, headers={OF: "b"})

    assert (statuses, status, other) == ([200, 200], 429, 200)
    assert 15 <= int(headers["Retry-After"]) <= 30
    assert answer["error"]["type"] == "rate_limit_error"
    assert answer["error"]["code"] == "rate_limit_exceeded"
    assert "2 requests a minute" in answer["error"]["message"]
    assert headers["X-Request-Id"]


async def test_after_the_time_that_it_is_told_it_is_accepted(pool: Pool) -> None:
    pool.configure(tenants={"requests_per_minute": 60})
    # A slow machine gives a tenant time to earn some requests more.
    statuses = []
    while 429 not in statuses:
        status, _, headers = await pool.post(BODY)
        statuses.append(status)

    await asyncio.sleep(int(headers["Retry-After"]))

    assert (set(statuses[:60]), headers["Retry-After"]) == ({200}, "1")
    assert (await pool.post(BODY))[0] == 200


async def test_tokens_of_prompts_and_answers_count(pool: Pool) -> None:
    pool.configure(tenants={"header": OF, "tokens_per_minute": 100})
    prompt = BODY | {"prompt": list(range(1, 60)), "max_tokens": 4}

    first, _, _ = await pool.post(prompt, headers={OF: "a"})
    await pool.idle()
    second, answer, _ = await pool.post(prompt, headers={OF: "a"})

    assert (first, second) == (200, 429)
    assert "100 tokens a minute" in answer["error"]["message"]
    assert pool.metric("tandem_router_tenant_tokens_total", tenant=OTHER, kind="output") == 4


@pytest.mark.parametrize(
    ("engine", "lie"),
    [("d0", {"usage_tokens": 10**9 - 1}), ("p0", {"prefill_usage": {"prompt_tokens": 10**9 - 1}})],
)
async def test_an_engine_that_lies_about_tokens_shuts_no_tenant_out(
    pool: Pool, engine: str, lie: dict[str, Any]
) -> None:
    pool.configure(tenants={"tokens_per_minute": 10_000})
    for name, value in lie.items():
        setattr(pool.engines[engine].script, name, value)

    first, _, _ = await pool.post(BODY)
    await pool.idle()

    assert (first, (await pool.post(BODY))[0]) == (200, 200)
    counted = [
        pool.metric("tandem_router_tenant_tokens_total", tenant=OTHER, kind=kind) or 0.0
        for kind in ("prompt", "output")
    ]
    assert sum(counted) <= 2 * 2048


async def test_tokens_that_an_answer_did_not_use_are_given_back(pool: Pool) -> None:
    pool.configure(tenants={"tokens_per_minute": 100})
    statuses = []
    for most in (95, 4):
        statuses.append((await pool.post(BODY | {"prompt": [1, 2, 3], "max_tokens": most}))[0])
        await pool.idle()

    assert statuses == [200, 200]


async def test_a_share_counts_the_tokens_that_were_used(pool: Pool) -> None:
    pool.configure(tenants={})
    pool.engines["d0"].script = Script(tokens=50)

    await pool.post(BODY)
    await pool.idle()

    used = [
        pool.metric("tandem_router_tenant_tokens_total", tenant=OTHER, kind=kind) or 0.0
        for kind in ("prompt", "output")
    ]
    assert pool.router.waiting._lines._shares.of(FIRST).served("") == sum(used)


async def test_what_limits_refuse_is_no_demand_and_reaches_no_engine(pool: Pool) -> None:
    pool.configure(tenants={"named": [ACME | {"requests_per_minute": 1}]})
    headers = {"Authorization": f"Bearer {KEY}"}

    await pool.post(BODY, headers=headers)
    await pool.post(BODY, headers=headers)
    await pool.idle()

    report = await pool.arrivals()
    assert sum(sum(requests) for _, requests, _, _ in report["arrivals"]) == 1
    assert len(pool.engines["d0"].seen) == 1
    refused = pool.metric("tandem_router_tenant_refused_total", tenant="acme", limit="requests")
    assert refused == 1
    assert pool.metric("tandem_router_requests_total", outcome="refused") == 1


async def test_anthropic_clients_get_a_limit_in_their_own_shape(pool: Pool) -> None:
    pool.configure(tenants={"requests_per_minute": 1})
    body = {"model": "tiny", "max_tokens": 4, "messages": [{"role": "user", "content": "hi"}]}

    await pool.post(body, "/v1/messages")
    status, answer, _ = await pool.post(body, "/v1/messages")

    assert (status, answer["error"]["type"]) == (429, "rate_limit_error")


async def test_only_named_tenants_have_labels(pool: Pool) -> None:
    pool.configure(tenants={"header": OF, "named": [{"name": "acme"}]})

    for name in ("acme", "b", "c", "d"):
        await pool.post(BODY, headers={OF: name})
    await pool.idle()

    page = await pool.metrics()
    labels = {line.partition('tenant="')[2].partition('"')[0] for line in page.splitlines()}
    assert labels - {""} == {"acme", OTHER}


async def test_the_operator_hears_of_named_tenants_and_of_all_others_as_one(pool: Pool) -> None:
    idle = {"name": "idle"}
    pool.configure(tenants={"header": OF, "requests_per_minute": 1, "named": [ACME, idle]})
    pool.engines["d0"].script = Script(tokens=5)

    await pool.post(BODY, headers={"Authorization": f"Bearer {KEY}"})
    for _ in range(2):
        await pool.post(BODY, headers={OF: "someone", "Authorization": "Bearer sk-unknown"})
    await pool.idle()

    report = await pool.arrivals()
    names = ("name", "finished", "good", "limited", "too_late", "output_tokens")
    assert [tuple(each[name] for name in names) for each in report["tenants"]] == [
        ("acme", 1, 1, 0, 0, 5),
        ("idle", 0, 0, 0, 0, 0),
        (OTHER, 1, 1, 1, 0, 5),
    ]
    hidden = ("someone", "unknown", hashlib.sha256(b"sk-unknown").hexdigest(), KEY, DIGEST)
    assert not any(each in json.dumps(report) for each in hidden)


async def test_a_pool_without_tenants_tells_of_none(pool: Pool) -> None:
    await pool.post(BODY, headers={OF: "acme"})
    await pool.idle()

    assert (await pool.arrivals())["tenants"] == []


async def test_what_is_shed_before_its_body_is_read_counts_for_its_tenant(pool: Pool) -> None:
    tenants = {"header": OF, "named": [{"name": "acme"}]}
    pool.configure(tenants=tenants, limits={"concurrent_requests": 1})
    gate = pool.engines["p0"].script.hold = asyncio.Event()
    first = asyncio.create_task(pool.stream())
    await pool.engines["p0"].wait_seen(1)

    status, _, _ = await pool.post(BODY, headers={OF: "acme"})

    acme, _ = (await pool.arrivals())["tenants"]
    assert (status, acme["finished"], acme["good"], acme["shed"]) == (429, 1, 0, 1)
    gate.set()
    await first


async def test_a_report_has_no_more_tenants_than_the_operator_reads(pool: Pool) -> None:
    pool.configure(tenants={"named": [{"name": f"t{number}"} for number in range(80)]})

    read = ArrivalsReport.model_validate(await pool.arrivals())

    assert (len(read.tenants), read.tenants[-1].name) == (65, OTHER)


async def done_in_order(pool: Pool, tenants: list[str]) -> list[str]:
    """Send requests of these tenants one after the other, while the first keeps the pod busy."""
    engine = pool.engines["p0"]
    gate, before = asyncio.Event(), len(engine.seen)
    engine.script = Script(prefill_s=0.1, hold=gate)
    done: list[str] = []
    tasks = []
    for name in tenants:
        task = asyncio.create_task(pool.post(BODY, headers={OF: name}))
        task.add_done_callback(lambda _, name=name: done.append(name))
        tasks.append(task)
        await until(lambda: pool.router.waiting.requests + len(engine.seen) - before == len(tasks))
    gate.set()
    answers = await asyncio.gather(*tasks)
    assert {status for status, _, _ in answers} == {200}
    return done


# The first of them can be on time, and those behind it cannot.
HARD = {"slo": {"ttft_s": 0.15}, "limits": {"prefill_requests_per_pod": 1}}


async def test_in_a_flood_the_others_go_first(pool: Pool) -> None:
    pool.configure(tenants={"header": OF}, **HARD)
    # What a prompt takes has to be known.
    await done_in_order(pool, ["warm"] * 2)

    done = await done_in_order(pool, ["flood"] * 8 + ["quiet"])

    assert done.index("quiet") <= 3


async def test_without_tenants_a_flood_goes_first(pool: Pool) -> None:
    pool.configure(**HARD)
    await done_in_order(pool, ["warm"] * 2)

    done = await done_in_order(pool, ["flood"] * 8 + ["quiet"])

    assert done.index("quiet") == 8


async def test_a_full_queue_sheds_the_tenant_with_the_longest_line(pool: Pool) -> None:
    limits = {"prefill_requests_per_pod": 1, "queued_requests": 3}
    pool.configure(tenants={"header": OF, "named": [{"name": "flood"}]}, limits=limits)
    engine = pool.engines["p0"]
    gate = engine.script.hold = asyncio.Event()
    tasks: list[asyncio.Task[Any]] = []
    for name in ("flood",) * 4 + ("quiet",):
        tasks.append(asyncio.create_task(pool.post(BODY, headers={OF: name})))
        await until(lambda: pool.router.waiting.requests + len(engine.seen) >= min(4, len(tasks)))

    await until(lambda: any(task.done() for task in tasks))
    gate.set()
    statuses = [status for status, _, _ in await asyncio.gather(*tasks)]

    assert statuses == [200, 200, 200, 429, 200]
    shed = {each["name"]: each["shed"] for each in (await pool.arrivals())["tenants"]}
    assert shed == {"flood": 1, OTHER: 0}
