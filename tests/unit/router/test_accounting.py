"""The router's account of requests: `/arrivals`, `/metrics`, the timing record, blame."""

import asyncio
import itertools
import json
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tandem_contracts import logs
from tandem_contracts.arrivals import MOST_COUNT, ArrivalsReport, InSystem
from tandem_contracts.router_settings import SloSettings
from tandem_engine.router.accounting.ledger import Ledger
from tandem_engine.router.accounting.router_metrics import log_spaced_buckets
from tandem_engine.router.accounting.timing_record import TimingRecord
from tandem_engine.router.pods.pod import Endpoint, Pod, Role
from tandem_engine.router.probing.polls import DecodeReads
from tandem_routing.history import HISTORY_S, prompt_bucket
from tandem_routing.verdict import Cause, Ending, Timeline, judge
from tests.unit.router.fake_engine import Script
from tests.unit.router.pool import Pool, events, until


def timings(tmp_path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (tmp_path / "timings.jsonl").read_text().splitlines()]


def reported(ledger: Ledger, **more: Any) -> dict[str, Any]:
    nobody = InSystem(
        queued_requests=0, queued_prompt_tokens=0, prefill_requests=0, decode_requests=0
    )
    quiet: dict[str, Any] = {"sick": [], "busy_share": 0.0, "cache_worth": {}}
    report = ledger.report(now_s=ledger.now_s, in_system=nobody, **quiet | more)
    document: dict[str, Any] = json.loads(report.model_dump_json(by_alias=True, warnings=False))
    return document


async def test_arrivals_have_the_documented_shape(pool: Pool) -> None:
    # On a virtual machine an answer can come within one tick of the clock.
    pool.engines["p0"].script.prefill_s = 0.01
    before_s = time.time()
    await pool.stream([5] * 600)
    await pool.idle()

    report = await pool.arrivals()

    read = ArrivalsReport.model_validate_json(json.dumps(report))
    assert read.model_dump(mode="json", by_alias=True, exclude_unset=True) == report
    assert report["schema"] == 1
    assert report["router"] == "tiny-router-0"
    assert report["started_s"] <= before_s <= report["now_s"]
    assert report["bucket_edges_tokens"] == [128, 512, 2048, 8192, 32768]
    [[second, requests, tokens, cached]] = report["arrivals"]
    assert int(before_s) <= second <= report["now_s"]
    assert requests == [0, 0, 1, 0, 0, 0]
    assert tokens == [0, 0, 600, 0, 0, 0]
    assert cached == 0
    assert report["cached_by_bucket"] == []
    [[_, finished]] = report["finished"]
    assert finished == {
        "finished": 1,
        "good": 1,
        "late_ttft": 0,
        "late_tpot": 0,
        "failed": 0,
        "shed": 0,
        "gone": 0,
        "output_tokens": 4,
        "output_tokens_squared": 16,
        "blame": {},
    }
    prefill = next(leg for leg in report["legs"] if leg["role"] == "prefill")
    assert prefill["busy_s"] > 0
    del prefill["busy_s"]
    assert prefill == {
        "pod": "p0",
        "role": "prefill",
        "requests": 1,
        "prompt_tokens": 600,
        "cached_tokens": 0,
        "prompt_token_contexts": 600 * 300,
        "output_tokens": 0,
    }
    decode = next(leg for leg in report["legs"] if leg["role"] == "decode")
    assert (decode["requests"], decode["output_tokens"]) == (1, 4)


async def test_an_estimated_prompt_becomes_exact_once_the_engine_has_counted_it(
    pool: Pool,
) -> None:
    pool.engines["p0"].script.cached_tokens = 100
    prompt = "word " * 300

    await pool.stream(prompt)

    report = await pool.arrivals()
    [[second, requests, tokens, cached]] = report["arrivals"]
    assert sum(requests) == 1
    assert sum(tokens) == 300
    assert cached == 100
    assert report["cached_by_bucket"] == [[second, [0, 100, 0, 0, 0, 0]]]
    leg = (await pool.arrivals())["legs"][1]
    assert leg["prompt_token_contexts"] == 200 * (100 + 100)


async def test_what_prefill_pods_have_cached_is_learned(pool: Pool) -> None:
    pool.engines["p0"].script.cached_tokens = 300
    for first in range(60):
        await pool.stream([first] * 600)

    learned = pool.router.learned
    assert learned.cached_ratio[2].value == pytest.approx(0.5, rel=0.1)
    assert learned.kept_ratio.value == 1.0


async def test_what_prefill_pods_kept_of_what_they_should_have_is_learned(pool: Pool) -> None:
    pool.engines["p0"].script.cached_tokens = 300
    for _ in range(80):
        await pool.stream([5] * 600)

    # Of 600 ids, two stretches of 256 are known.
    assert pool.router.learned.kept_ratio.value == pytest.approx(300 / 512, rel=0.1)


async def test_the_estimate_learns_from_exact_counts(pool: Pool) -> None:
    prompt = "word " * 100
    for _ in range(20):
        await pool.stream(prompt)
    gate = pool.engines["p0"].script.hold = asyncio.Event()
    waiting = asyncio.create_task(pool.stream(prompt * 4))
    await pool.engines["p0"].wait_seen(21)

    [pod] = [pod for pod in pool.router.fleet.pods() if pod.name == "p0"]

    assert pod.tokens == pytest.approx(400, rel=0.1)
    gate.set()
    await waiting


async def test_requests_count_as_arrivals_whatever_becomes_of_them(pool: Pool) -> None:
    pool.engines["d0"].script.statuses = [500, 500]
    await pool.complete()
    await pool.complete()

    assert sum(sum(row[1]) for row in (await pool.arrivals())["arrivals"]) == 2


def test_seconds_without_requests_have_no_row_and_old_rows_go() -> None:
    now = 1000.0
    ledger = Ledger(router="r", wall=lambda: now, clock=lambda: now)
    ledger.arrive(10)
    ledger.arrive_best_effort()
    now += 5.4
    ledger.arrive(10)
    ledger.arrive_best_effort()
    assert [row[0] for row in reported(ledger)["arrivals"]] == [1000, 1005]
    assert reported(ledger)["best_effort"] == [1000, 1005]

    now = 1000.0 + HISTORY_S

    assert [row[0] for row in reported(ledger)["arrivals"]] == [1005]
    assert reported(ledger)["best_effort"] == [1005]


def test_the_report_can_be_read_after_the_clock_was_set_back() -> None:
    now = 10_000.0
    ledger = Ledger(router="r", wall=lambda: now, clock=lambda: 0.0)
    for _ in range(HISTORY_S):
        ledger.arrive(10)
        now += 1.0
    arrived = ledger.arrive(10)
    now -= 5000.0
    for _ in range(HISTORY_S):
        ledger.arrive(10)
        now += 1.0

    ArrivalsReport.model_validate(reported(ledger))
    # That second comes again, and a request of the first time ends in it.
    now = arrived
    ledger.arrive(100)
    ledger.correct(arrived, estimated=10, exact=2000, cached=7)
    ledger.withdraw(arrived, tokens=2000, cached=9)
    ledger.withdraw(arrived, tokens=100, cached=0)
    ledger.withdraw(arrived, tokens=100, cached=0)
    ArrivalsReport.model_validate(reported(ledger))


def test_a_withdrawn_request_takes_its_cached_tokens_along() -> None:
    ledger = Ledger(router="r", wall=lambda: 10_000.0, clock=lambda: 0.0)
    for exact, cached in ((300, 100), (4000, 3000)):
        second = ledger.arrive(200)
        ledger.correct(second, estimated=200, exact=exact, cached=cached)

    ledger.withdraw(second, tokens=4000, cached=3000)

    report = reported(ledger)
    assert report["cached_by_bucket"] == [[10_000, [0, 100, 0, 0, 0, 0]]]
    assert report["arrivals"][0][-1] == 100


def test_a_clock_that_is_set_back_by_little_loses_nothing() -> None:
    now = 10_000.0
    ledger = Ledger(router="r", wall=lambda: now, clock=lambda: 0.0)
    ledger.arrive(10)
    now -= 30.0

    ledger.arrive(10)

    assert [row[0] for row in reported(ledger)["arrivals"]] == [9970, 10_000]


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/responses", "/v1/messages"])
@pytest.mark.parametrize("at", ["p0", "d0"])
async def test_the_report_can_be_read_whatever_an_engine_counts(
    pool: Pool, at: str, path: str
) -> None:
    if at == "d0":
        pool.show("p0", leaving=True)
    script = pool.engines[at].script
    script.cached_tokens, script.usage_tokens = 999_999_999, 999_999_999
    asked = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 5}
    fields = {"/v1/responses": {"input": "hello"}, "/v1/messages": asked}.get(path, {"prompt": [5]})

    status, _, _ = await pool.post({"model": "tiny", **fields}, path)
    await pool.idle()

    assert status == 200
    async with pool.client.get(
        f"http://127.0.0.1:{pool.router.internal_port}/arrivals"
    ) as response:
        report = ArrivalsReport.model_validate_json(await response.read())
    assert sum(leg.requests for leg in report.legs) >= 1
    for leg in report.legs:
        assert leg.cached_tokens <= leg.prompt_tokens


def test_no_total_of_a_report_is_beyond_what_its_reader_takes() -> None:
    ledger = Ledger(router="r", wall=lambda: 10.0, clock=lambda: 10.0)
    pod = Pod(Endpoint(name="d", role=Role.DECODE, host="h", port=1))
    verdict = judge(
        Timeline(received_s=9.9, first_token_s=9.95, last_token_s=10.0),
        Ending.ANSWERED,
        ended_s=10.0,
        slo=SloSettings(ttft_s=1.0, tpot_s=1.0),
        prompt_tokens=5,
        output_tokens=2**60,
    )

    ledger.finish(verdict, None, output_tokens=2**60)
    ledger.finish_class("chat", verdict, output_tokens=2**60)
    ledger.finish_tenant("acme", verdict, output_tokens=2**60)
    ledger.leg_began(pod)
    ledger.leg_ended(pod)
    ledger.leg_served(
        pod, prompt_tokens=2**60, cached_tokens=2**60, computed_tokens=2**60, output_tokens=2**60
    )

    report = reported(ledger, classes=ledger.classes({"chat": 0}), tenants=ledger.tenants(["acme"]))
    read = ArrivalsReport.model_validate(report)
    assert read.finished[0][1].finished == 1
    assert read.finished[0][1].output_tokens == MOST_COUNT
    assert read.classes[0].good_output_tokens == MOST_COUNT


async def test_a_restarted_router_says_when_it_started(pool: Pool) -> None:
    before = await pool.arrivals()
    now = time.time() + 60

    restarted = reported(Ledger(router="r", wall=lambda: now, clock=lambda: now))

    assert restarted["started_s"] > before["now_s"]
    assert restarted["arrivals"] == []


def test_a_leg_is_busy_once_however_many_requests_it_has() -> None:
    now = 0.0
    ledger = Ledger(router="r", wall=lambda: now, clock=lambda: now)
    pod = Pod(Endpoint(name="p", role=Role.PREFILL, host="h", port=1))
    ledger.leg_began(pod)
    now = 2.0
    ledger.leg_began(pod)
    now = 3.0
    ledger.leg_ended(pod)
    now = 7.0
    assert reported(ledger)["legs"][0]["busy_s"] == 7.0

    ledger.leg_ended(pod)
    now = 50.0

    assert reported(ledger)["legs"][0]["busy_s"] == 7.0


@pytest.mark.parametrize(
    ("tokens", "bucket"), [(1, 0), (128, 0), (129, 1), (2048, 2), (32768, 4), (32769, 5)]
)
def test_an_edge_belongs_to_the_bucket_below_it(tokens: int, bucket: int) -> None:
    assert prompt_bucket(tokens) == bucket


def test_histogram_buckets_are_log_spaced_from_a_millisecond_to_ten_minutes() -> None:
    edges = log_spaced_buckets()

    assert edges[0] == 0.001
    assert edges[-1] >= 600
    ratios = [high / low for low, high in itertools.pairwise(edges[10:])]
    assert all(1.145 < ratio < 1.155 for ratio in ratios)


METRICS = """
tandem_router_requests_total{outcome="good"} 1.0
tandem_router_slo_requests_total{prompt_bucket="128",result="good"} 1.0
tandem_router_ttft_seconds_count 1.0
tandem_router_tpot_seconds_count 1.0
tandem_router_ttft_part_seconds_count{part="prefill"} 1.0
tandem_router_blame_total{cause="error"} 0.0
tandem_router_prompt_tokens_total 3.0
tandem_router_cached_tokens_total 0.0
tandem_router_foreseen_cached_tokens_total 0.0
tandem_router_prefix_marks 0.0
tandem_router_output_tokens_total 4.0
tandem_router_queued_requests 0.0
tandem_router_in_flight_requests{phase="prefill"} 0.0
tandem_router_in_flight_requests{phase="decode"} 0.0
tandem_router_pods{role="decode",state="ready"} 1.0
tandem_router_pods{role="decode",state="leaving"} 0.0
tandem_router_settings_generation 1.0
tandem_router_arrivals_total 1.0
"""


async def test_a_scrape_gets_only_the_series_that_it_names_and_packed_if_it_can_unpack(
    pool: Pool,
) -> None:
    url = f"http://127.0.0.1:{pool.router.internal_port}/metrics"
    names = ["tandem_router_ttft_seconds_bucket", "tandem_router_queued_requests"]
    query, plain = [("name[]", name) for name in names], {"Accept-Encoding": "identity"}

    async def page(**options: Any) -> tuple[str, str | None]:
        async with pool.client.get(url, **options) as response:
            return await response.text(), response.headers.get("Content-Encoding")

    some, encoding = await page(params=query, headers=plain)
    whole, _ = await page(headers=plain)
    _, packed = await page(headers={"Accept-Encoding": "gzip"})

    series = {line.partition("{")[0].partition(" ")[0] for line in some.splitlines()} - {"#"}
    assert series == set(names)
    assert "tandem_router_tpot_seconds_bucket" in whole
    assert (encoding, packed) == (None, "gzip")


async def test_metrics_have_the_documented_names(pool: Pool) -> None:
    await pool.stream()
    await pool.idle()

    lines = (await pool.metrics()).splitlines()

    assert [line for line in METRICS.split("\n") if line and line not in lines] == []


async def test_output_is_counted_in_tokens_not_in_chunks(pool: Pool) -> None:
    pool.engines["d0"].script = Script(tokens=12, tokens_per_chunk=3)

    await pool.stream()
    await pool.idle()

    assert pool.metric("tandem_router_output_tokens_total") == 12


async def test_tpot_is_that_of_one_answer_however_many_a_request_makes(
    pool: Pool, tmp_path: Path
) -> None:
    pool.engines["d0"].script = Script(tokens=5, gap_s=0.02)

    await pool.stream(n=8)
    await pool.idle()

    [row] = timings(tmp_path)
    assert row["output_tokens"] == 40
    assert row["tpot_s"] >= 0.01
    assert row["duration_s"] >= row["ttft_s"] + 4 * row["tpot_s"]


async def test_the_length_of_one_answer_is_learned_and_not_that_of_all_in_a_request(
    pool: Pool,
) -> None:
    pool.engines["d0"].script.tokens = 10

    await pool.stream(n=8)
    await pool.idle()
    assert pool.router.learned.output_tokens.value == 10
    hold = pool.engines["d0"].script.hold = asyncio.Event()
    task = asyncio.create_task(pool.stream(n=4))
    await pool.engines["d0"].wait_seen(2)

    (pod,) = pool.router.fleet.usable(Role.DECODE)
    assert (pod.requests, pod.streams, pod.output_tokens) == (1, 4, 40)
    assert pod.tokens - pod.output_tokens < 10
    hold.set()
    await task
    await pool.idle()
    assert (pod.requests, pod.streams, pod.tokens, pod.output_tokens) == (0, 0, 0, 0)


async def test_the_timing_record_joins_by_request_id_and_its_parts_sum_to_ttft(
    pool: Pool, tmp_path: Path
) -> None:
    pool.engines["d0"].script = Script(tokens=5, gap_s=0.02, first_token_s=0.02)
    pool.engines["p0"].script.prefill_s = 0.02

    body = {"model": "tiny", "prompt": "secret words here", "stream": True}
    url = pool.url + "/v1/completions"
    async with pool.client.post(url, json=body, headers={"X-Request-Id": "join-me"}) as response:
        _ = [event async for event in events(response)]
    await pool.idle()

    [row] = timings(tmp_path)
    assert row["request_id"] == "join-me"
    assert row["outcome"] == "good"
    assert (row["prefill_pod"], row["decode_pod"]) == ("p0", "d0")
    assert (row["prompt_tokens"], row["output_tokens"]) == (3, 5)
    assert sum(row["parts_s"].values()) == pytest.approx(row["ttft_s"])
    assert row["ttft_s"] >= 0.04
    # A first token that is read late shortens the gaps after it, but never to half.
    assert row["tpot_s"] >= 0.01
    assert row["duration_s"] >= row["ttft_s"] + 4 * row["tpot_s"]
    assert "secret" not in json.dumps(row)


async def test_ttft_is_measured_finer_than_by_whole_milliseconds(
    pool: Pool, tmp_path: Path
) -> None:
    for _ in range(5):
        await pool.stream("hello")
        await pool.idle()

    milliseconds = [row["ttft_s"] * 1000.0 for row in timings(tmp_path)]

    assert any(abs(each - round(each)) > 0.001 for each in milliseconds), milliseconds


@pytest.mark.parametrize(
    ("which", "logged"), [("off", []), ("missed", ["late_ttft"]), ("all", ["good", "late_ttft"])]
)
async def test_the_log_has_a_line_for_each_request_that_the_settings_ask_for(
    pool: Pool, caplog: pytest.LogCaptureFixture, which: str, logged: list[str]
) -> None:
    caplog.set_level("INFO", logger="tandem_engine.router")
    pool.configure(request_log=which)
    await pool.stream("a secret")
    await pool.idle()
    pool.configure(request_log=which, slo={"ttft_s": 0.0001, "tpot_s": 1.0})
    await pool.stream("a secret")
    await pool.idle()

    lines = [record for record in caplog.records if record.getMessage() == "request"]

    assert [line.__dict__["outcome"] for line in lines] == logged
    for line in lines:
        text = json.loads(logs.formatter().format(line))
        assert text["request_id"]
        assert (text["prefill_pod"], text["decode_pod"]) == ("p0", "d0")
        assert text["ttft_s"] > 0
        assert (text["blame"] is None) == (text["outcome"] == "good")
        assert "secret" not in str(text)


def test_the_timing_record_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "timings.jsonl"
    record = TimingRecord(path, max_bytes=1000)

    for number in range(200):
        record.write({"number": number})
    record.close()

    assert path.stat().st_size <= 1000
    older = path.with_name("timings.jsonl.1")
    numbers = [
        json.loads(line)["number"] for line in (older.read_text() + path.read_text()).splitlines()
    ]
    assert numbers == list(range(numbers[0], 200))


async def test_a_full_disk_is_said_once_and_fails_no_request(
    caplog: pytest.LogCaptureFixture,
) -> None:
    record = TimingRecord(Path("/dev/full"), max_bytes=1000)

    for number in range(3):
        record.write({"number": number})
    record.close()

    assert [line.getMessage() for line in caplog.records] == ["timing record not written"]


async def test_a_client_gone_before_its_bound_is_counted_apart(pool: Pool) -> None:
    pool.engines["p0"].script.hold = asyncio.Event()
    task = asyncio.create_task(pool.stream())
    await pool.engines["p0"].wait_seen(1)

    task.cancel()
    await pool.idle()

    [[_, row]] = (await pool.arrivals())["finished"]
    assert (row["gone"], row["finished"]) == (1, 0)


async def test_a_client_that_closes_at_done_was_answered(pool: Pool) -> None:
    pool.engines["d0"].script.linger_s = 5.0
    body = {"model": "tiny", "prompt": "x", "stream": True}
    async with (
        aiohttp.ClientSession() as client,
        client.post(pool.url + "/v1/completions", json=body) as response,
    ):
        assert [event async for event in events(response)][-1] == "[DONE]"
    await pool.idle()

    assert pool.metric("tandem_router_requests_total", outcome="good") == 1


async def test_a_client_gone_after_its_bound_is_a_ttft_violation(pool: Pool) -> None:
    pool.configure(slo={"ttft_s": 0.01})
    pool.engines["p0"].script.hold = asyncio.Event()
    task = asyncio.create_task(pool.stream())
    await pool.engines["p0"].wait_seen(1)

    await asyncio.sleep(0.02)
    task.cancel()
    await pool.idle()

    [[_, row]] = (await pool.arrivals())["finished"]
    assert (row["gone"], row["finished"], row["late_ttft"]) == (0, 1, 1)


async def test_requests_are_judged_at_the_bounds_in_force_when_they_end(pool: Pool) -> None:
    gate = pool.engines["d0"].script.hold = asyncio.Event()
    task = asyncio.create_task(pool.stream())
    await pool.engines["d0"].wait_seen(1)

    pool.configure(slo={"ttft_s": 0.000001}, generation=2)
    gate.set()
    await task
    await pool.idle()

    assert pool.metric("tandem_router_requests_total", outcome="late_ttft") == 1
    assert pool.metric("tandem_router_settings_generation") == 2


SLOW = {
    "router_queue": {},
    "prefill": {"p0": Script(prefill_s=1.3)},
    "decode_admission": {"d0": Script(first_token_s=1.3)},
    "decode_step": {"d0": Script(gap_s=0.5)},
}


@pytest.mark.parametrize("cause", SLOW)
async def test_blame_names_the_part_that_was_slowed_down(pool: Pool, cause: str) -> None:
    slots = 1 if cause == "router_queue" else 4
    pool.configure(limits={"prefill_requests_per_pod": slots})
    for name in ("p0", "d0"):
        pool.engines[name].script = Script(prefill_s=0.01, first_token_s=0.01)
    for _ in range(10):
        await pool.stream()

    pool.configure(slo={"ttft_s": 1.0, "tpot_s": 0.35}, limits={"prefill_requests_per_pod": slots})
    if cause == "router_queue":
        gate = pool.engines["p0"].script.hold = asyncio.Event()
        blocker = asyncio.create_task(pool.stream())
        await pool.engines["p0"].wait_seen(11)
        tasks = [asyncio.create_task(pool.stream()) for _ in range(3)]
        await asyncio.sleep(1.3)
        gate.set()
        await asyncio.gather(blocker, *tasks)
    else:
        for name, script in SLOW[cause].items():
            pool.engines[name].script = script
        for _ in range(3):
            await pool.stream()
    await pool.idle()

    blamed = {
        name: pool.metric("tandem_router_blame_total", cause=name)
        for name in ("router_queue", "engine_queue", "prefill", "decode_admission", "decode_step")
    }
    if cause == "prefill":
        # Until S(u) has followed, the excess over it is the pod's queue: prefill's own too.
        assert (blamed["prefill"] or 0) + (blamed["engine_queue"] or 0) == 3
    else:
        assert blamed[cause] == 3


async def test_prefill_is_named_when_the_bound_is_tightened_below_its_service_time(
    pool: Pool,
) -> None:
    # Longer than what a busy machine adds to a part that nobody asked for.
    pool.engines["p0"].script.prefill_s = 0.4
    for _ in range(6):
        await pool.stream()
    pool.configure(slo={"ttft_s": 0.001})

    await pool.stream()
    await pool.idle()

    assert pool.metric("tandem_router_blame_total", cause="prefill") == 1


async def test_a_decode_pod_that_prefills_for_itself_spends_prefill_time(
    pool: Pool, tmp_path: Path
) -> None:
    pool.engines["p0"].script.prefill_s = 0.5
    for _ in range(6):
        await pool.stream()
    pool.engines["d0"].script.first_token_s = 1.0

    await pool.stream(n=2)
    await pool.idle()

    parts = timings(tmp_path)[-1]["parts_s"]
    assert parts["prefill"] == pytest.approx(0.5, rel=0.9)
    assert parts["decode_admission"] > 0


async def test_the_mean_transfer_time_comes_from_the_decode_pods(pool: Pool) -> None:
    polls = DecodeReads(
        fleet=pool.router.fleet,
        upstream=pool.router._upstream,
        learned=pool.router.learned,
    )
    engine = pool.engines["d0"]
    totals = 'vllm:nixl_xfer_time_seconds_{}{{engine="0",model_name="tiny"}} {}\n'
    engine.metrics = totals.format("sum", 0.5) + totals.format("count", 100.0)
    await polls.scrape(pool.router.fleet.usable(Role.DECODE))
    assert pool.router.learned.transfer_s == pytest.approx(0.005)

    engine.metrics = totals.format("sum", 0.7) + totals.format("count", 110.0)
    await polls.scrape(pool.router.fleet.usable(Role.DECODE))

    assert pool.router.learned.transfer_s == pytest.approx(0.02)
    engine.script.first_token_s = 0.05
    await pool.stream()
    await pool.idle()
    name = "tandem_router_ttft_part_seconds_sum"
    assert pool.metric(name, part="transfer") == pytest.approx(0.02)


async def test_a_decode_pod_that_began_anew_has_no_transfers_of_negative_time(pool: Pool) -> None:
    polls = DecodeReads(
        fleet=pool.router.fleet,
        upstream=pool.router._upstream,
        learned=pool.router.learned,
    )
    totals = "vllm:nixl_xfer_time_seconds_sum {}\nvllm:nixl_xfer_time_seconds_count {}\n"
    pool.engines["d0"].metrics = totals.format(1.0, 2)
    await polls.scrape(pool.router.fleet.usable(Role.DECODE))

    # More than before, in less time: they are other ones.
    pool.engines["d0"].metrics = totals.format(0.03, 3)
    await polls.scrape(pool.router.fleet.usable(Role.DECODE))

    assert pool.router.learned.transfer_s == pytest.approx(0.01)


@pytest.mark.parametrize("value", ["1e999", "1.2.3", "-1", "1e300", "+"])
async def test_broken_metrics_of_one_decode_pod_hide_nothing_of_the_others(
    pool: Pool, caplog: pytest.LogCaptureFixture, value: str
) -> None:
    await pool.add("d1")
    polls = DecodeReads(
        fleet=pool.router.fleet,
        upstream=pool.router._upstream,
        learned=pool.router.learned,
    )
    running = 'vllm:num_requests_running{{engine="0"}} {}\n'
    transfers = "vllm:nixl_xfer_time_seconds_sum {}\nvllm:nixl_xfer_time_seconds_count 2\n"
    for engine in ("d0", "d1"):
        pool.engines[engine].metrics = running.format(3) + transfers.format(1.0)
    pool.engines["d0"].metrics = running.format(value) + transfers.format(value)

    await polls.scrape(pool.router.fleet.usable(Role.DECODE))
    await polls.scrape(pool.router.fleet.usable(Role.DECODE))

    others = {pod.name: pod.others for pod in pool.router.fleet.usable(Role.DECODE)}
    assert others == {"d0": 0, "d1": 3}
    assert pool.router.learned.transfer_s == pytest.approx(0.5)
    assert caplog.messages.count("metrics of an engine pod are broken") == 1


async def test_without_transfers_their_time_is_unknown_not_zero(pool: Pool) -> None:
    polls = DecodeReads(
        fleet=pool.router.fleet,
        upstream=pool.router._upstream,
        learned=pool.router.learned,
    )

    await polls.scrape(pool.router.fleet.usable(Role.DECODE))

    assert pool.router.learned.transfer_s is None


def test_a_gone_request_is_in_no_total_of_finished_ones() -> None:
    ledger = Ledger(router="r", wall=lambda: 10.0, clock=lambda: 10.0)
    verdict = judge(
        Timeline(received_s=9.9),
        Ending.GONE,
        ended_s=10.0,
        slo=SloSettings(ttft_s=1.0, tpot_s=1.0),
        prompt_tokens=5,
        output_tokens=0,
    )

    ledger.finish(verdict, None, output_tokens=0)

    assert reported(ledger)["finished"][0][1]["gone"] == 1
    assert reported(ledger)["finished"][0][1]["finished"] == 0


@pytest.mark.parametrize(("beyond_s", "echoes"), [(59.0, None), (61.0, {"router_queue": 1})])
def test_what_waited_for_a_minute_beyond_its_bound_is_told_as_an_echo(
    beyond_s: float, echoes: dict[str, int] | None
) -> None:
    ledger = Ledger(router="r", wall=lambda: 1000.0, clock=lambda: 1000.0)
    first_s = 101.0 + beyond_s
    timeline = Timeline(
        received_s=100.0,
        dispatched_s=first_s,
        prefill_started=True,
        prefill_ended_s=first_s,
        first_token_s=first_s,
        last_token_s=first_s + 0.5,
    )
    verdict = judge(
        timeline,
        Ending.ANSWERED,
        # How long the answer is makes no difference.
        ended_s=first_s + 300.0,
        slo=SloSettings(ttft_s=1.0, tpot_s=1.0),
        prompt_tokens=5,
        output_tokens=2,
    )

    ledger.finish(verdict, Cause.ROUTER_QUEUE, output_tokens=2)

    row = reported(ledger)["finished"][0][1]
    assert row["blame"] == {"router_queue": 1}
    assert row.get("echoes") == echoes


def test_what_waited_in_an_engine_was_never_overdue_in_the_router_and_is_no_echo() -> None:
    ledger = Ledger(router="r", wall=lambda: 1000.0, clock=lambda: 1000.0)
    timeline = Timeline(
        received_s=100.0,
        dispatched_s=100.0,
        prefill_started=True,
        prefill_ended_s=300.0,
        first_token_s=300.0,
        last_token_s=300.5,
    )
    verdict = judge(
        timeline,
        Ending.ANSWERED,
        ended_s=300.5,
        slo=SloSettings(ttft_s=1.0, tpot_s=1.0),
        prompt_tokens=5,
        output_tokens=2,
    )

    ledger.finish(verdict, Cause.ENGINE_QUEUE, output_tokens=2)

    assert "echoes" not in reported(ledger)["finished"][0][1]


async def test_one_chat_of_few_bytes_and_many_tokens_spoils_nothing_for_others(pool: Pool) -> None:
    pool.configure(max_model_len=None, timeouts={"connect_s": 10.0})
    odd = {"messages": [{"role": "user", "content": "hi"}], "model": "tiny"}
    pool.engines["p0"].script.prefill_usage = {"prompt_tokens": 100_000, "completion_tokens": 1}
    await pool.post(odd, "/v1/chat/completions")
    pool.engines["p0"].script.prefill_usage = None
    await pool.add("p1")
    before = sum(sum(row[2]) for row in (await pool.arrivals())["arrivals"])
    for name in ("p0", "p1"):
        pool.engines[name].script.hold = asyncio.Event()

    short = {"messages": [{"role": "user", "content": "one two three"}], "model": "tiny"}
    tasks = [asyncio.create_task(pool.post(short, "/v1/chat/completions")) for _ in range(30)]

    await until(lambda: sum(len(pool.engines[name].seen) for name in ("p0", "p1")) == 31)
    assert len(pool.engines["p1"].seen) == 15
    told = sum(sum(row[2]) for row in (await pool.arrivals())["arrivals"]) - before
    assert told < 30 * 20
    for task in tasks:
        task.cancel()


async def test_every_string_of_a_chat_counts_and_an_image_has_a_size(pool: Pool) -> None:
    pool.configure(max_model_len=None)
    pool.engines["p0"].script.hold = asyncio.Event()
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "x" * 4000}}
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 400_000}}
    chats: list[dict[str, Any]] = [
        {"messages": [{"role": "assistant", "tool_calls": [call]}]},
        {"messages": [{"role": "user", "content": "a", "name": "x" * 4000}]},
        {"messages": [{"role": "user", "content": "a"}], "documents": [{"text": "x" * 4000}]},
        {"messages": [{"role": "user", "content": [image, {"type": "text", "text": "what?"}]}]},
    ]

    for number, chat in enumerate(chats):
        rows = (await pool.arrivals())["arrivals"]
        task = asyncio.create_task(pool.post({"model": "tiny", **chat}, "/v1/chat/completions"))
        await until(lambda number=number: pool.metric("tandem_router_arrivals_total") == number + 1)
        told = sum(sum(row[2]) for row in (await pool.arrivals())["arrivals"])
        assert 1000 <= told - sum(sum(row[2]) for row in rows) <= 1100
        task.cancel()
