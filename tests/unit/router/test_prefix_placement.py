"""A prompt goes to the prefill pod that is done with it first, by its work and by its cache."""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tandem_contracts.router_settings import RouterSettings
from tandem_engine.router.pods.pod import Endpoint, Pod, Role
from tandem_engine.router.scheduling.caches import PrefillCaches
from tandem_engine.router.scheduling.placement import PrefillPlacement
from tandem_engine.router.scheduling.waiter import Waiter
from tandem_engine.router.settings_in_force import parse_settings
from tandem_routing.deadline_queue import Expected
from tandem_routing.learned import Learned
from tandem_routing.outstanding import Load
from tandem_routing.prefix_index import NO_PREFIX, USUAL_CAPACITY_TOKENS, Prefix
from tandem_routing.rank import Rank
from tests.unit.router.desk import Desk
from tests.unit.router.pool import Pool, decode_pace, settings_document, until

PODS = ("p0", "p1", "p2")
# A thousand tokens take a second, and a pass nothing by itself.
PER_TOKEN_S = 0.001


def learn(learned: Learned, *, revision: str = "") -> Learned:
    """Let a router have seen a few prompts alone."""
    for tokens in (100, 1000, 3000, 5000, 8000) * 20:
        learned.prefilled_alone(
            revision, prompt_tokens=tokens, cached_tokens=0, leg_s=PER_TOKEN_S * tokens
        )
    return learned


class Prefixes(Desk):
    """Three prefill pods, each with as much room as a pool has by default."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(prefill_requests_per_pod=64, **settings)
        self.fleet.replace(
            [
                *(Endpoint(name=name, role=Role.PREFILL, host="h", port=1) for name in PODS),
                Endpoint(name="d", role=Role.DECODE, host="h", port=2),
            ]
        )
        self.learned = learn(Learned())

    def pod(self, name: str) -> Pod:
        found = self.fleet.find(name)
        assert found is not None
        return found

    def ask_for(
        self, *marks: int, tokens: int = 1000, deadline_s: float = 99.0
    ) -> "asyncio.Task[PrefillPlacement]":
        """Have a prompt of ten times as many tokens as each mark stands for."""
        prefix = Prefix(marks, tokens / 10) if marks else NO_PREFIX
        waiter = Waiter(
            deadline_s=deadline_s,
            tokens=tokens,
            expected=lambda: self.expected(prefix, tokens),
            split=True,
            prefix=prefix,
        )
        return asyncio.create_task(self.waiting.admit(waiter))

    def expected(self, prefix: Prefix, tokens: int) -> Expected:
        held = self.waiting.caches.held(prefix)
        by_name = {pod.name: tokens for pod, tokens in held.items()}
        return self.learned.expected(tokens, output_tokens=10, held=by_name)

    async def place(self, *marks: int, tokens: int = 1000) -> PrefillPlacement:
        task = self.ask_for(*marks, tokens=tokens)
        await settle()
        return task.result()

    async def serve(self, *marks: int, tokens: int = 1000) -> str:
        """Have a prompt computed at once; return where."""
        placement = await self.place(*marks, tokens=tokens)
        self.done(placement)
        return name_of(placement)

    def done(self, placement: PrefillPlacement, *, computed: bool = True) -> None:
        self.waiting.places.left_prefill(placement, computed=computed)
        self.waiting.places.arrived(placement)


def name_of(placement: PrefillPlacement) -> str:
    assert placement.prefill is not None
    return placement.prefill.name


async def settle() -> None:
    for _ in range(6):
        await asyncio.sleep(0)


NINE = tuple(range(1, 10))


async def test_a_prompt_goes_where_its_beginning_is() -> None:
    desk = Prefixes()
    desk.pod("p0").enter(Load(10, 0.01), 0.0)
    first = await desk.serve(*NINE)
    assert first == "p1"
    desk.pod("p1").enter(Load(300, 0.3), 0.0)

    again = await desk.place(*NINE)

    # 0.3 s of work and a tenth of the prompt are less than 0.01 s and all of it.
    assert name_of(again) == "p1"
    assert again.held_share == pytest.approx(0.9)
    assert again.load.tokens == 100
    assert again.load.work_s == pytest.approx(0.1, rel=0.1)


async def test_a_router_that_has_timed_no_prompt_yet_goes_by_the_tokens_to_compute() -> None:
    desk = Prefixes()
    desk.learned = Learned()
    desk.pod("p0").enter(Load(10), 0.0)
    assert await desk.serve(*NINE) == "p1"
    desk.pod("p1").enter(Load(300), 0.0)

    again = await desk.place(*NINE)

    assert name_of(again) == "p1"
    assert again.load.tokens == 100
    desk.pod("p1").enter(Load(700), 0.0)
    # 1,100 tokens before a tenth of it are more than none before all of it.
    assert name_of(await desk.place(*NINE)) == "p2"


async def test_a_prompt_goes_where_its_beginning_is_where_the_length_did_not_matter_so_far() -> (
    None
):
    desk = Prefixes(decode=decode_pace(kv_capacity_tokens=1000))
    desk.learned = Learned()
    for tokens in (1000, 2000) * 20:
        desk.learned.prefilled_alone("", prompt_tokens=tokens, cached_tokens=0, leg_s=1.0)
    assert await desk.serve(*NINE) == "p0"
    held = desk.expected(Prefix(NINE, 100.0), 1000)
    assert held.near["p0"].service_s == held.cold_s

    # Its cache is full, that of others is empty: no reason to compute a beginning again.
    assert await desk.serve(*NINE[:8], 77, 78) == "p0"


async def test_a_beginning_is_copied_when_a_wait_costs_more_than_to_compute_it_again() -> None:
    desk = Prefixes()
    assert await desk.serve(*NINE) == "p0"

    places = [name_of(await desk.place(*NINE)) for _ in range(12)]

    assert places[:2] == ["p0", "p0"]
    assert set(places) == set(PODS)
    # Each is soonest where it goes: nine wait for what takes nine times as long to compute anew.
    assert 8 <= places.index("p1") <= 10


async def test_a_prompt_that_is_still_computed_is_waited_for_as_if_it_were_cached() -> None:
    desk = Prefixes()
    await desk.place(*NINE, tokens=5000)
    for name in ("p1", "p2"):
        desk.pod(name).enter(Load(1000, 1.0), 0.0)

    # Behind the first it takes 5.5 s, and 6 s elsewhere.
    assert name_of(await desk.place(*NINE, tokens=5000)) == "p0"


async def test_a_request_that_waits_for_its_pod_lets_others_go_before_it() -> None:
    desk = Prefixes(prefill_tokens_per_pod=1)
    assert await desk.serve(*NINE, tokens=5000) == "p0"
    held = [await desk.place(*NINE, tokens=5000) for _ in range(2)]
    assert [name_of(each) for each in held] == ["p0", "p0"]

    waiting, other = desk.ask_for(*NINE, tokens=5000), desk.ask_for(77, tokens=5000)
    await settle()

    assert not waiting.done()
    assert name_of(other.result()) == "p1"
    desk.done(held[0])
    await settle()
    assert name_of(waiting.result()) == "p0"


async def test_a_request_that_waits_for_its_pod_goes_elsewhere_once_that_is_sooner() -> None:
    desk = Prefixes(prefill_tokens_per_pod=1)
    assert await desk.serve(*NINE, tokens=5000) == "p0"
    for _ in range(2):
        await desk.place(*NINE, tokens=5000)
    waiting = desk.ask_for(*NINE, tokens=5000)
    await settle()
    assert not waiting.done()

    # The pod is long overdue: no request should count on it.
    desk.now = 20.0
    await until(waiting.done)

    assert name_of(waiting.result()) == "p1"


class CountingCaches(PrefillCaches):
    """Counts the looks at the queue."""

    looks = 0

    def hear(self, settings: RouterSettings) -> None:
        self.looks += 1
        super().hear(settings)


async def test_one_timer_looks_at_the_queue_whichever_requests_wait_for_the_time() -> None:
    caches = CountingCaches()
    desk = Prefixes(prefill_tokens_per_pod=6000, caches=caches)
    assert await desk.serve(*NINE, tokens=5000) == "p0"
    for _ in range(3):
        await desk.place(*NINE, tokens=5000)
    for name in ("p1", "p2", "p1", "p2"):
        desk.pod(name).enter(Load(100, 0.1), 0.0)
    apart = desk.ask_for(*NINE, tokens=5000)
    spare = Waiter(
        deadline_s=99.0,
        tokens=10**6,
        expected=lambda: desk.expected(NO_PREFIX, 10**6),
        split=True,
        rank=Rank.of(guaranteed=False, priority=0),
        slo_class="batch",
    )
    best_effort = asyncio.create_task(desk.waiting.admit(spare))
    await settle()
    loop = asyncio.get_running_loop()
    caches.looks, began_s = 0, loop.time()

    await until(lambda: loop.time() > began_s + 0.5)

    assert not apart.done()
    assert not best_effort.done()
    assert 0 < caches.looks <= 1 + (loop.time() - began_s) / 0.05
    for task in (apart, best_effort):
        task.cancel()


async def test_among_equals_the_pod_whose_cache_loses_least_is_chosen() -> None:
    desk = Prefixes(decode=decode_pace(kv_capacity_tokens=2000))
    assert [await desk.serve(n, tokens=10_000) for n in (1, 2, 3)] == ["p0", "p1", "p2"]
    # Of the cached prompts, that of p0 is used again.
    assert await desk.serve(1, tokens=10_000) == "p0"

    assert await desk.serve(4, tokens=10_000) == "p1"


@pytest.mark.parametrize("lose", ["gone", "restarted", "moved"])
async def test_a_pod_whose_engine_began_anew_has_nothing(lose: str) -> None:
    desk = Prefixes()
    assert await desk.serve(*NINE) == "p0"
    anew: dict[str, Callable[[], Sequence[Endpoint]]] = {
        "gone": list,
        "restarted": lambda: [Endpoint("p0", Role.PREFILL, "h", 1, restarts=1)],
        "moved": lambda: [Endpoint("p0", Role.PREFILL, "other", 1)],
    }
    if lose == "gone":
        desk.fleet.remove("p0")
    for endpoint in anew[lose]():
        desk.fleet.upsert(endpoint)

    assert desk.waiting.caches.marks == 0
    assert (await desk.place(*NINE)).held_share == 0.0


async def test_a_pod_that_was_unready_for_a_moment_keeps_what_it_has() -> None:
    desk = Prefixes()
    assert await desk.serve(*NINE) == "p0"

    for ready in (False, True):
        desk.fleet.upsert(Endpoint("p0", Role.PREFILL, "h", 1, ready=ready))

    assert (await desk.place(*NINE)).held_share == pytest.approx(0.9)


async def test_a_prompt_that_was_refused_or_failed_is_in_no_cache() -> None:
    desk = Prefixes()

    desk.done(await desk.place(*NINE), computed=False)

    assert desk.waiting.caches.marks == 0


async def test_a_pod_that_fails_at_once_is_not_the_soonest_for_what_it_has() -> None:
    desk = Prefixes()
    assert await desk.serve(*NINE) == "p0"
    pod = desk.pod("p0")
    attempt = desk.fleet.ejection.begin(pod, tokens=1000)
    desk.fleet.ejection.failed(attempt)
    assert pod.weight == 1000

    assert await desk.serve(*NINE) == "p1"


async def test_a_pod_that_is_not_usable_is_not_waited_for() -> None:
    desk = Prefixes()
    assert await desk.serve(*NINE) == "p0"
    desk.fleet.upsert(Endpoint("p0", Role.PREFILL, "h", 1, leaving=True))

    assert await desk.serve(*NINE) == "p1"


async def test_what_engines_had_corrects_what_they_should_have_had() -> None:
    desk = Prefixes()
    await desk.serve(*NINE)
    for _ in range(60):
        desk.learned.prefilled(1000, cached_tokens=450, held_tokens=900)

    assert desk.expected(Prefix(NINE, 100.0), 1000).cached_tokens("p0") == pytest.approx(
        450, abs=30
    )
    # Hits of prompts without a known prefix are learned apart, and there were none.
    assert desk.expected(NO_PREFIX, 1000).service_s == pytest.approx(1.0, rel=0.05)


def test_one_prompt_moves_the_trust_in_caches_by_little() -> None:
    found = learn(Learned())

    found.prefilled(1000, cached_tokens=0, held_tokens=900)

    assert found.kept_ratio.value == pytest.approx(0.95, abs=0.051)


async def test_the_index_is_as_large_as_the_share_of_a_cache_that_a_router_fills() -> None:
    pace = decode_pace(kv_capacity_tokens=6000) | {"routers": 3}

    assert Prefixes().waiting.caches.capacity_tokens == USUAL_CAPACITY_TOKENS
    assert Prefixes(decode=pace).waiting.caches.capacity_tokens == 2000


async def test_a_pool_that_places_by_prefix_no_more_remembers_nothing_of_it() -> None:
    told: list[str] = []
    caches = PrefillCaches(tell=lambda pod, prefix: told.append(pod))
    desk = Prefixes(caches=caches)
    await desk.serve(*NINE)
    under_way = await desk.place(*NINE)
    assert (caches.marks, len(told)) == (9, 1)

    desk.configure(prefix_placement=False)
    assert caches.marks == 0
    desk.done(under_way)
    # One that came before, and what another router tells.
    await desk.serve(*NINE)
    caches.heard(desk.pod("p1"), Prefix(NINE, 100.0))
    assert (caches.marks, len(told)) == (0, 1)

    desk.configure(prefix_placement=True)
    await desk.serve(*NINE)
    assert (caches.marks, len(told)) == (9, 2)


def prompt(question: str, **fields: Any) -> dict[str, Any]:
    return {"prompt": "a long list of rules. " * 300 + question, **fields}


@pytest.mark.parametrize(("by_prefix", "where"), [(True, [6, 0, 0]), (False, [1, 5, 0])])
async def test_live_requests_find_their_prefix_again(
    bare_pool: Pool, by_prefix: bool, where: list[int]
) -> None:
    bare_pool.configure(prefix_placement=by_prefix, slo={"ttft_s": 60.0})
    for name in (*PODS, "d0"):
        await bare_pool.add(name)
    router = bare_pool.router
    learn(router.learned, revision="a")
    await bare_pool.stream(**prompt("question 0"))
    # The others are idler from now on, by less than there is to find.
    for pod, tokens in zip(PODS, (20, 0, 10), strict=True):
        held = router.fleet.find(pod)
        assert held is not None
        held.enter(Load(tokens, 0.001 * tokens), asyncio.get_running_loop().time())

    for number in range(1, 6):
        await bare_pool.stream(**prompt(f"question {number}"))

    assert [len(bare_pool.engines[name].seen) for name in PODS] == where
    assert router.waiting.caches.marks == (6 if by_prefix else 0)
    assert bare_pool.metric("tandem_router_prefix_marks") == router.waiting.caches.marks
    foreseen = bare_pool.metric("tandem_router_foreseen_cached_tokens_total")
    assert foreseen is not None
    assert (foreseen > 0) is by_prefix


async def test_a_second_try_at_prefill_is_found_where_it_was_computed(bare_pool: Pool) -> None:
    for name in ("p0", "p1", "d0"):
        await bare_pool.add(name)
    bare_pool.engines["p0"].script.statuses = [500]

    await bare_pool.stream(**prompt("question"))

    caches, router = bare_pool.router.waiting.caches, bare_pool.router
    assert caches.marks == 6
    assert {pod.name for pod in router.fleet.pods() if caches.loss(pod, 1e9)} == {"p1"}


def test_settings_of_before_choose_by_prefix() -> None:
    assert parse_settings(json.dumps(settings_document())).prefix_placement is True
