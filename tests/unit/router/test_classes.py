"""Classes of requests at a real router: the class of each, its bounds, and what is told of it."""

import asyncio
import hashlib
import time
from typing import Any

import pytest

from tests.unit.router.fake_engine import Script
from tests.unit.router.pool import Pool, until

LOOSE = {"ttft_s": 60.0, "tpot_s": 60.0, "attainment": 0.5}
TIGHT = {"ttft_s": 5.0, "tpot_s": 5.0, "attainment": 0.99}
KEY = "sk-premium"
DIGEST = "sha256:" + hashlib.sha256(KEY.encode()).hexdigest()
CLASSES: list[dict[str, Any]] = [
    {"name": "default", "slo": TIGHT},
    {"name": "batch", "slo": LOOSE, "guaranteed": False, "models": ["tiny-batch"]},
    {"name": "premium", "slo": TIGHT, "priority": 10, "keys": [DIGEST]},
]
BODY = {"model": "tiny", "prompt": "one two three"}


def configure(pool: Pool, **changes: Any) -> None:
    pool.configure(classes=CLASSES, models=["tiny", "tiny-batch"], **changes)


async def class_of(pool: Pool, body: dict[str, Any] | None = None, **headers: str) -> str:
    """Return the class that the router counts a request in."""
    before = {each["name"]: each["finished"] for each in (await pool.arrivals())["classes"]}
    status, answer, _ = await pool.post(BODY | (body or {}), headers=headers)
    assert status == 200, answer
    await pool.idle()
    after = {each["name"]: each["finished"] for each in (await pool.arrivals())["classes"]}
    (name,) = [name for name in after if after[name] > before[name]]
    return name


@pytest.mark.parametrize("header", ["X-Tandem-Class", "x-gateway-inference-objective"])
async def test_a_header_names_the_class(pool: Pool, header: str) -> None:
    configure(pool)

    assert await class_of(pool, **{header: "batch"}) == "batch"


async def test_the_service_tier_of_openai_names_the_class(pool: Pool) -> None:
    configure(pool)

    assert await class_of(pool, {"service_tier": "batch"}) == "batch"
    assert await class_of(pool, {"service_tier": "auto"}) == "default"


async def test_a_model_name_with_a_class_leaves_no_choice(pool: Pool) -> None:
    configure(pool)

    assert await class_of(pool, {"model": "tiny-batch"}, **{"X-Tandem-Class": "default"}) == "batch"


async def test_a_request_that_names_no_class_has_that_of_its_key_or_the_default(pool: Pool) -> None:
    configure(pool)

    assert await class_of(pool) == "default"
    assert await class_of(pool, **{"X-Tandem-Class": "of-another-part"}) == "default"
    assert await class_of(pool, Authorization=f"Bearer {KEY}") == "premium"
    assert await class_of(pool, **{"X-Api-Key": KEY}) == "premium"


@pytest.mark.parametrize("first", ["X-Tandem-Class", "X-Gateway-Inference-Objective"])
async def test_a_name_that_is_no_class_leaves_the_choice_to_the_next_rule(
    pool: Pool, first: str
) -> None:
    configure(pool)
    unknown = {first: "of-another-part"}

    assert await class_of(pool, **unknown, **{"X-LLM-D-Inference-Objective": "batch"}) == "batch"
    assert await class_of(pool, {"service_tier": "batch"}, **unknown) == "batch"
    assert await class_of(pool, **unknown, **{"X-Api-Key": KEY}) == "premium"
    assert await class_of(pool, {"service_tier": "flex"}, **{"X-Api-Key": KEY}) == "premium"


async def test_a_key_may_use_a_class_below_its_own(pool: Pool) -> None:
    configure(pool)

    headers = {"Authorization": f"Bearer {KEY}", "X-Tandem-Class": "batch"}
    assert await class_of(pool, **headers) == "batch"


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer sk-other"}])
async def test_a_client_cannot_raise_itself_above_what_its_key_allows(
    pool: Pool, headers: dict[str, str]
) -> None:
    configure(pool)

    named = {"X-Tandem-Class": "premium", **headers}
    status, answer, _ = await pool.post(BODY, headers=named)

    assert status == 403
    assert answer["error"]["code"] == "class_not_allowed"
    assert "'premium'" in answer["error"]["message"]
    assert KEY not in answer["error"]["message"]
    assert (await pool.arrivals())["arrivals"] == []


async def test_a_default_class_with_keys_is_for_these_keys_alone(pool: Pool) -> None:
    closed = {"name": "default", "slo": TIGHT, "keys": [DIGEST]}
    pool.configure(classes=[closed, {"name": "batch", "slo": LOOSE, "guaranteed": False}])

    for headers in ({}, {"Authorization": "Bearer sk-other"}, {"X-Tandem-Class": "unknown"}):
        status, answer, _ = await pool.post(BODY, headers=headers)
        assert (status, answer["error"]["code"]) == (403, "class_not_allowed")
    assert (await pool.arrivals())["arrivals"] == []
    assert await class_of(pool, **{"X-Api-Key": KEY}) == "default"
    assert await class_of(pool, **{"X-Tandem-Class": "batch"}) == "batch"


async def test_a_request_shed_before_its_body_is_read_counts_whatever_its_class(pool: Pool) -> None:
    closed = {"name": "default", "slo": TIGHT, "keys": [DIGEST]}
    pool.configure(classes=[closed], limits={"concurrent_requests": 1})
    gate = pool.engines["p0"].script.hold = asyncio.Event()
    first = asyncio.create_task(pool.post(BODY, headers={"X-Api-Key": KEY}))
    await until(lambda: pool.engines["p0"].seen)

    status, answer, _ = await pool.post(BODY)

    gate.set()
    assert (status, answer["error"]["code"]) == (429, "too_many_requests")
    assert (await first)[0] == 200


async def test_best_effort_is_no_demand_and_no_part_of_the_slo(pool: Pool) -> None:
    configure(pool)

    for name in ("batch", "batch", "default"):
        await class_of(pool, **{"X-Tandem-Class": name})

    report = await pool.arrivals()
    assert sum(sum(requests) for _, requests, _, _ in report["arrivals"]) == 1
    assert sum(row["finished"] for _, row in report["finished"]) == 1
    assert pool.metric("tandem_router_arrivals_total") == 3
    assert pool.metric("tandem_router_ttft_seconds_count") == 1
    by_name = {each["name"]: each for each in report["classes"]}
    assert by_name["batch"]["good"] == 2
    assert by_name["batch"]["good_output_tokens"] > 0
    assert by_name["premium"]["finished"] == 0
    counted = pool.metric("tandem_router_class_requests_total", slo_class="batch", outcome="good")
    assert counted == 2


async def test_when_best_effort_came_is_told_unless_it_was_malformed(pool: Pool) -> None:
    configure(pool)
    pool.engines["p0"].script.statuses = [400]
    batch = {"X-Tandem-Class": "batch"}

    refused, _, _ = await pool.post(BODY, headers=batch)
    await pool.idle()
    before = (await pool.arrivals())["best_effort"]
    await class_of(pool, **batch)

    (second,) = (await pool.arrivals())["best_effort"]
    assert (refused, before) == (400, [])
    assert abs(second - time.time()) < 30


async def test_engines_hear_nothing_of_classes(pool: Pool) -> None:
    configure(pool)

    await class_of(pool, **{"X-Tandem-Class": "batch"})

    (seen,) = pool.engines["d0"].seen
    assert "x-tandem-class" not in {name.lower() for name in seen.headers}
    assert "priority" not in seen.body


async def test_each_class_is_judged_by_its_own_bounds(pool: Pool) -> None:
    pool.engines["p0"].script = Script(prefill_s=0.05)
    tight = {"ttft_s": 0.001, "tpot_s": 5.0}
    pool.configure(classes=[{"name": "default", "slo": tight}, {"name": "batch", "slo": LOOSE}])

    await class_of(pool, **{"X-Tandem-Class": "batch"})
    await class_of(pool)

    by_name = {each["name"]: each for each in (await pool.arrivals())["classes"]}
    assert by_name["batch"]["good"] == 1
    assert by_name["default"]["good"] == 0


async def test_a_class_may_wait_for_as_long_as_its_bound(pool: Pool) -> None:
    configure(pool, timeouts={"first_token_s": 0.2, "request_s": 0.3}, slo={"ttft_s": 0.1})
    pool.engines["p0"].script = Script(prefill_s=0.6)

    batch, _, _ = await pool.post(BODY, headers={"X-Tandem-Class": "batch"})
    pool.configure(timeouts={"first_token_s": 0.2, "request_s": 0.3}, slo={"ttft_s": 0.1})
    pool.engines["d0"].script = Script(prefill_s=0.6, first_token_s=0.6)
    plain, _, _ = await pool.post(BODY, headers={"X-Tandem-Class": "batch"})

    assert batch == 200
    assert plain in (503, 504)


async def test_a_class_waits_in_line_for_as_long_as_its_bound(pool: Pool) -> None:
    configure(
        pool,
        timeouts={"first_token_s": 0.3, "request_s": 0.3},
        limits={"prefill_requests_per_pod": 1},
    )
    pool.engines["p0"].script = Script(prefill_s=1.0)
    batch = {"X-Tandem-Class": "batch"}

    answers = await asyncio.gather(*(pool.post(BODY, headers=batch) for _ in range(2)))

    assert [status for status, _, _ in answers] == [200, 200]


async def test_guaranteed_requests_pass_best_effort_that_came_before(pool: Pool) -> None:
    configure(pool, limits={"prefill_requests_per_pod": 1})
    engine = pool.engines["p0"]
    gate = engine.script.hold = asyncio.Event()
    tasks = []
    for name in ("default", "batch", "batch", "default"):
        headers = {"X-Tandem-Class": name}
        tasks.append(asyncio.create_task(pool.post(BODY | {"user": name}, headers=headers)))
        await until(lambda: pool.router.waiting.requests + len(engine.seen) == len(tasks))

    waiting = {each["name"]: each["queued_requests"] for each in (await pool.arrivals())["classes"]}
    done: list[str] = []
    for name, task in zip(("first", "batch", "batch", "default"), tasks, strict=True):
        task.add_done_callback(lambda _, name=name: done.append(name))
    gate.set()
    await asyncio.gather(*tasks)

    assert waiting == {"default": 1, "batch": 2, "premium": 0}
    assert done == ["first", "default", "batch", "batch"]


async def test_a_pool_without_classes_tells_of_none(pool: Pool) -> None:
    status, _, _ = await pool.post(BODY, headers={"X-Tandem-Class": "batch"})

    assert status == 200
    assert (await pool.arrivals())["classes"] == []
    assert pool.metric("tandem_router_ttft_seconds_count") == 1
