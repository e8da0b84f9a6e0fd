"""The cost of one author's pods and Prometheus servers to the others, over real sockets."""

import asyncio
import gzip
import json
import threading
from dataclasses import replace

import aiohttp
import pytest
from aiohttp import web

from tandem_operator.api.v1alpha1.scaling import Metrics
from tandem_operator.core.role import Role
from tandem_operator.metrics import departed, direct, prometheus
from tandem_operator.metrics.collect import MOST_PROBLEMS, Collector
from tandem_operator.metrics.departed import Departed
from tandem_operator.metrics.direct import DirectSource
from tandem_operator.metrics.prometheus import ANSWER_LIMIT_BYTES, PrometheusSource
from tandem_operator.metrics.router_arrivals import parse_arrivals
from tandem_operator.metrics.scrape_budget import AT_ONCE, NoAnswerError, ScrapeBudget
from tandem_operator.metrics.sessions import pods_session, servers_session
from tandem_operator.metrics.source import EngineTarget, RouterTarget, Targets
from tests.unit.metrics.servers import access, server_at, serving
from tests.unit.metrics.test_arrivals import REPORT, parsed
from tests.unit.metrics.test_direct import ENGINE_PAGE, hangs, trickles

SILENT_POOLS = 5
ONE = {"metric": {"__name__": "vllm:num_requests_running", "pod": "e-1"}, "value": [1, "1"]}


def engines(port, *, count=1, name="e"):
    targets = (
        EngineTarget(f"{name}-{n}", Role.DECODE, "127.0.0.1", port, port) for n in range(count)
    )
    return Targets(namespace="ns", pool=name, engines=tuple(targets), routers=())


def router(port):
    found = RouterTarget("r-1", "127.0.0.1", port)
    return Targets(namespace="ns", pool="tiny", engines=(), routers=(found,))


async def endless(request):
    """Send a hundred megabytes, as long as the client reads them."""
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(1600):
        await response.write(b"x 1\n" * 16384)
    return response


async def asked(handlers, *, url_path=""):
    """Return the answer of a Prometheus source about a server."""
    async with serving(handlers) as (port, seen), pods_session() as session:
        source = PrometheusSource(
            server_at(session, f"http://127.0.0.1:{port}{url_path}"), timeout_s=10.0
        )
        return await source.read(engines(9), now_s=5000.0), seen


async def reported(page):
    """Return the report of a router that answers so on `/arrivals`."""
    async with serving({"/arrivals": page}) as (port, _), pods_session() as session:
        return await DirectSource(session).reports(router(port), now_s=1100.2)


async def test_an_answer_of_prometheus_is_read_up_to_its_limit_and_no_further():
    sent = 0

    async def endless_query(request):
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        part = json.dumps(ONE).encode() * 500
        while sent < 120e6:
            await response.write(part)
            sent += len(part)
        return response

    reading, _ = await asked({"/api/v1/query": endless_query})

    assert "larger than" in reading.problems[0]
    # What the sockets between the two hold was sent as well.
    assert sent < ANSWER_LIMIT_BYTES + 16e6


async def test_a_server_that_redirects_is_not_followed():
    def elsewhere(_):
        raise web.HTTPFound("/admin/api/v1/query")

    reading, seen = await asked({"/api/v1/query": elsewhere, "/admin/api/v1/query": "{}"})

    assert reading.problems == (
        "Prometheus: HTTP 302, a redirect, which is not followed, from /api/v1/query",
    )
    assert {path for path, _ in seen} == {"/api/v1/query"}


BOMB = gzip.compress(ENGINE_PAGE.encode() + b"#" * 30_000_000)


def bomb(_):
    return web.Response(body=BOMB, headers={"Content-Encoding": "gzip"})


async def test_a_compressed_answer_is_refused_and_not_unpacked():
    reading, _ = await asked({"/api/v1/query": bomb})
    async with serving({"/metrics": bomb}) as (port, _), pods_session() as session:
        direct = await DirectSource(session).read(engines(port), now_s=7.0)

    assert "compressed" in reading.problems[0]
    assert "compressed" in direct.problems[0]


async def test_pods_are_asked_for_plain_answers():
    asked_for = []

    def page(request):
        asked_for.append(request.headers["Accept-Encoding"])
        return ENGINE_PAGE

    async with serving({"/metrics": page}) as (port, _), pods_session() as session:
        await DirectSource(session).read(engines(port), now_s=7.0)

    assert asked_for == ["identity"]


@pytest.mark.parametrize(
    "part", ['["x",[1],[1],1]', "[1,[0,0,0],[0,0,0],0]", "[]", "{}", "[[[[[[[[[[[[]]]]]]]]]]]]"]
)
async def test_a_report_of_very_many_parts_is_refused_before_it_is_parsed(part):
    rows = ",".join([part] * (900_000 // (len(part) + 1)))
    page = json.dumps(REPORT).replace('"arrivals": [[', f'"arrivals": [{rows},[')

    reports, problems = await reported(page)

    assert reports == ()
    assert problems == ("/arrivals: the answer has too many parts",)


async def test_a_report_over_its_size_is_refused():
    _, problems = await reported(json.dumps(REPORT | {"router": "r" * 8_000_000}))

    assert problems == ("r-1: /arrivals is larger than 1048576 B",)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"arrivals": [[n, [0], [0], 0] for n in range(1301)]}, "arrivals"),
        ({"arrivals": [[1, [0, 0, 10**400], [0, 0, 0], 0]]}, "arrivals"),
        ({"bucket_edges_tokens": list(range(40))}, "bucket_edges_tokens"),
        ({"legs": [REPORT["legs"][0] | {"pod": "p" * 300}]}, "legs.0.pod"),
        ({"cache_worth_tokens": {f"p{n}": 1 for n in range(4097)}}, "cache_worth_tokens"),
        ({"cache_worth_tokens": {"p": 10**400}}, "cache_worth_tokens"),
        ({"finished": [[1, REPORT["finished"][0][1] | {"blame": {"x" * 4000: 1}}]]}, "blame"),
    ],
)
def test_a_report_with_more_than_a_router_can_tell_is_refused_in_few_words(changes, said):
    with pytest.raises(ValueError, match=said) as refusal:
        parsed(**changes)

    assert len(str(refusal.value)) < 250


async def test_a_page_without_end_or_with_too_many_series_is_given_up():
    many = "".join(f'vllm:num_requests_running{{engine="{n}"}} 1\n' for n in range(3000))
    wide = 'vllm:num_requests_running{a="' + "x" * 5000 + '"} 1\n'
    pages = {"/endless": endless, "/many": many, "/wide": wide, "/line": "y" * 500_000}
    said = {}
    for path, page in pages.items():
        async with serving({"/metrics": page}) as (port, _), pods_session() as session:
            reading = await DirectSource(session).read(engines(port), now_s=7.0)
        said[path] = reading.problems[0].partition("/metrics ")[2]

    assert said == {
        "/endless": "is larger than 2097152 B",
        "/many": "has more than 2048 series",
        "/wide": "has a line over 2048 B",
        "/line": "has a line without end",
    }


async def test_answers_are_parsed_beside_the_loop(monkeypatch):
    loops_thread, parsing = threading.get_ident(), {}

    def watched(name, parse):
        def parse_and_tell(*words, **named):
            parsing[name] = threading.get_ident()
            return parse(*words, **named)

        return parse_and_tell

    for module, name in (
        (direct, "parse_arrivals"),
        (direct, "parse_page"),
        (prometheus, "parse_bounded"),
    ):
        monkeypatch.setattr(module, name, watched(name, getattr(module, name)))
    answers = {"/arrivals": json.dumps(REPORT), "/metrics": ENGINE_PAGE, "/api/v1/query": "{}"}

    async with serving(answers) as (port, _), pods_session() as session:
        await DirectSource(session).reports(router(port), now_s=1100.2)
        await DirectSource(session).read(engines(port), now_s=7.0)
    await asked({"/api/v1/query": json.dumps({"status": "success"})})

    assert set(parsing) == {"parse_arrivals", "parse_page", "parse_bounded"}
    assert loops_thread not in parsing.values()


@pytest.mark.parametrize("silence", [hangs, trickles])
async def test_a_pool_of_silent_pods_does_not_delay_its_neighbour(silence):
    async with (
        serving({"/metrics": silence}) as (silent, _),
        serving({"/metrics": ENGINE_PAGE}) as (healthy, _),
        pods_session() as session,
    ):
        collector = Collector(session, servers=access(session))
        loop = asyncio.get_running_loop()
        looks = []

        async def look_again_and_again():
            while True:
                began_s = loop.time()
                targets = engines(silent, count=400, name="bad")
                bad = await collector.collect(targets, Metrics(), now_s=7.0)
                looks.append((bad, loop.time() - began_s))

        looking = asyncio.create_task(look_again_and_again())
        while not looks:
            good = await collector.collect(engines(healthy, count=4), Metrics(), now_s=7.0)
            assert len(good.engines) == 4
            await asyncio.sleep(0.5)
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)

    bad, took_s = looks[0]
    # A tick is five seconds; it took 75 before, on an idle machine.
    assert took_s < 60
    assert bad.engines == ()
    assert len(bad.problems) == MOST_PROBLEMS + 1
    assert bad.problems[-1] == f"and {400 - MOST_PROBLEMS} more"


async def test_silent_pods_of_other_pools_hold_no_connection_that_a_pool_needs():
    waiting, all_wait = 0, asyncio.Event()

    async def silence(request):
        nonlocal waiting
        waiting += 1
        if waiting == SILENT_POOLS * AT_ONCE:
            all_wait.set()
        await hangs(request)

    async with (
        serving({"/metrics": silence}) as (silent, _),
        serving({"/metrics": ENGINE_PAGE}) as (healthy, _),
        pods_session() as session,
    ):
        source = DirectSource(session, timeout_s=60.0)
        others = [
            asyncio.create_task(
                source.read(
                    engines(silent, count=2 * AT_ONCE, name=f"bad{number}"),
                    now_s=7.0,
                    budget=ScrapeBudget(pods=2 * AT_ONCE, seconds=60.0),
                )
            )
            for number in range(SILENT_POOLS)
        ]
        await all_wait.wait()

        good = await source.read(engines(healthy, count=4), now_s=7.0)

        assert len(good.engines) == 4
        assert not any(task.done() for task in others)
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


async def test_pods_that_were_silent_are_asked_after_the_others():
    asked = []

    def noted(name, answer):
        def answers(_):
            asked.append(name)
            return answer()

        return {"/metrics": answers}

    async with (
        serving(noted("silent", lambda: web.Response(status=503))) as (silent, _),
        serving(noted("healthy", lambda: ENGINE_PAGE)) as (healthy, _),
        pods_session() as session,
    ):
        source = DirectSource(session, timeout_s=60.0)
        first = engines(silent, count=2 * AT_ONCE, name="a")
        last = engines(healthy, count=2 * AT_ONCE, name="b")
        both = replace(first, engines=first.engines + last.engines)
        budget = {"pods": 4 * AT_ONCE, "seconds": 60.0}
        await source.read(both, now_s=7.0, budget=ScrapeBudget(**budget))
        asked.clear()
        again = await source.read(both, now_s=12.0, budget=ScrapeBudget(**budget))

    assert sorted(each.pod for each in again.engines) == sorted(each.pod for each in last.engines)
    # A silent one begins when all of the others have, and most of them have ended by then.
    assert set(asked[:AT_ONCE]) == {"healthy"}


async def test_a_pool_that_sends_too_much_in_one_tick_is_not_read_further():
    budget = ScrapeBudget(pods=1)
    budget.spend(8_000_000, of="e-1")

    with pytest.raises(NoAnswerError, match="e-2: not read, since its pool sent too much"):
        budget.spend(8_000_000, of="e-2")


async def test_answers_that_take_long_to_read_use_up_their_own_pools_time():
    mine, theirs = ScrapeBudget(pods=0), ScrapeBudget(pods=0)

    def work():
        return sum(range(40_000_000))

    for _ in range(20):
        try:
            await mine.read(work, of="r-1")
        except NoAnswerError as error:
            refused = str(error)
            break

    assert refused == "r-1: not read, since its pool's answers take too long"
    assert await theirs.read(lambda: 5, of="r-2") == 5


async def test_a_router_that_calls_itself_a_new_one_at_each_look_is_kept_within_bounds(monkeypatch):
    monkeypatch.setattr(departed, "KEPT_ROWS", 50)
    watched = Departed()
    for look in range(200):
        now_s = 2000.0 + 5 * look
        born = REPORT | {"now_s": now_s, "started_s": 1000.0 + 5 * look}
        report = parse_arrivals(json.dumps(born).encode(), now_s=now_s)
        told = watched.add(router(9), (report,), now_s=now_s)

    assert len(told) < 30


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://127.0.0.1:{port}", "the operator's own pod"),
        ("http://localhost:{port}", "the operator's own pod"),
        ("http://0.0.0.0:{port}", "the operator's own pod"),
        ("http://[::ffff:127.0.0.1]:{port}", "the operator's own pod"),
    ],
)
async def test_no_connection_is_made_to_the_operators_own_pod(url, why):
    async with (
        serving({"/api/v1/query": "{}"}) as (port, seen),
        servers_session(named=False) as session,
    ):
        source = PrometheusSource(server_at(session, url.format(port=port)))
        reading = await source.read(engines(9), now_s=5000.0)

    assert why in reading.problems[0]
    assert seen == []


async def test_a_server_that_the_installation_allows_may_be_anywhere(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    async with serving({"/api/v1/query": "{}"}) as (port, seen):
        url = f"http://127.0.0.1:{port}"
        async with servers_session(named=True) as session:
            await PrometheusSource(server_at(session, url)).read(engines(9), now_s=5000.0)

    assert seen


@pytest.mark.parametrize(("allowed", "asked_by_proxy"), [(True, True), (False, False)])
async def test_only_an_allowed_server_is_asked_through_a_proxy(
    monkeypatch, allowed, asked_by_proxy
):
    url = "http://prometheus.invalid:9090"
    hosts = []

    async def proxy(request):
        hosts.append(request.headers["Host"])
        return web.json_response({})

    async with serving({"/api/v1/query": proxy}) as (port, _):
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{port}")
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        async with servers_session(named=allowed) as session:
            await PrometheusSource(server_at(session, url)).read(engines(9), now_s=5000.0)

    assert bool(hosts) is asked_by_proxy
    assert {*hosts} <= {"prometheus.invalid:9090"}


async def test_a_cookie_of_one_pod_is_not_kept_for_another():
    cookies = []

    def page(request):
        cookies.append(dict(request.cookies))
        answer = web.Response(text=ENGINE_PAGE)
        answer.set_cookie("who", "me")
        return answer

    async with serving({"/metrics": page}) as (port, _), pods_session() as session:
        for _ in range(2):
            await DirectSource(session).read(engines(port), now_s=7.0)
        assert isinstance(session.cookie_jar, aiohttp.DummyCookieJar)

    assert cookies == [{}, {}]
