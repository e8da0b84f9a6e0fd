"""What a prefill pod's cache is worth: what it saved lately, and no other cache could have."""

from math import exp

import pytest

from tandem_routing.cache_worth import LATELY_S, CacheWorth
from tandem_routing.deadline_queue import AtPod, Expected
from tests.unit.router.pool import Pool
from tests.unit.router.test_prefix_placement import NINE, Prefixes, learn, prompt


def near(**cached: int) -> Expected:
    return Expected(near={pod: AtPod(tokens, tokens, 1.0) for pod, tokens in cached.items()})


def test_only_tokens_that_no_other_pod_has_count_as_saved() -> None:
    expected = near(a=900, b=400)

    assert [expected.saved_tokens(pod) for pod in ("a", "b", "c")] == [500, 0, 0]
    assert near(a=900).saved_tokens("a") == 900


def test_what_was_saved_long_ago_counts_less() -> None:
    worth: CacheWorth[str] = CacheWorth()
    worth.add("a", 1000, now=10.0)
    worth.add("a", 1000, now=10.0 + LATELY_S)
    worth.add("b", 0, now=10.0)

    assert worth.by_pod(10.0 + LATELY_S) == {"a": pytest.approx(1000 + 1000 * exp(-1), abs=1)}
    assert worth.by_pod(10.0 + 20 * LATELY_S) == {}


async def test_a_prompt_that_finds_its_beginning_makes_that_cache_worth_more() -> None:
    desk = Prefixes()
    for _ in range(3):
        assert await desk.serve(*NINE) == "p0"
    worth = desk.waiting.caches.worth

    assert {pod.name: tokens for pod, tokens in worth.by_pod(desk.now).items()} == {"p0": 1800}

    desk.fleet.remove("p0")
    assert worth.by_pod(desk.now) == {}


async def test_a_pool_that_places_by_load_alone_tells_of_no_worth() -> None:
    desk = Prefixes()
    for _ in range(3):
        await desk.serve(*NINE)

    desk.configure(prefix_placement=False)
    await desk.serve(*NINE)

    assert desk.waiting.caches.worth.by_pod(desk.now) == {}


async def test_a_router_tells_the_operator_what_each_cache_is_worth(pool: Pool) -> None:
    learn(pool.router.learned, revision="a")
    assert (await pool.arrivals())["cache_worth_tokens"] == {}

    for question in ("one", "two"):
        await pool.complete(**prompt(question))

    worth = (await pool.arrivals())["cache_worth_tokens"]
    assert set(worth) == {"p0"}
    assert worth["p0"] > 1000
