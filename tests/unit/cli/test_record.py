"""`tandem record` writes what a live pool was asked as a trace, through the API server alone."""

import base64

import aiohttp
import pytest

from tests.unit.cli.fake_cluster import do, lines, page
from tests.unit.cli.files import PROFILE, failed, sentence, tandem
from tests.unit.router.fake_engine import FakeEngine
from tests.unit.router.process import serving


def marks(*names: str) -> str:
    return base64.b64encode(b"".join(f"{name:>8}".encode() for name in names)).decode()


def test_a_record_is_a_trace_that_the_simulator_reads(cluster, add_router, pool, now_s):
    alike = [marks("a", "b", "c", "d"), marks("a", "b", "e", "f")]
    add_router(
        "chat-router-0",
        page(
            [now_s - 100.0, 1152, 576, 60, True, alike[0]],
            [now_s - 40.5, 1152, 0, 80, True, alike[1]],
            now_s=now_s,
        ),
    )

    result = tandem("record", "chat", "-o", "trace.jsonl")

    assert result.exit_code == 0, result.output
    with open("trace.jsonl") as file:
        first, second = lines(file.read())
    assert (first["input_length"], first["output_length"]) == (1152, 60)
    assert second["timestamp"] - first["timestamp"] == pytest.approx(59_500.0, abs=1.0)
    assert first["hash_ids"][0] == second["hash_ids"][0]
    assert first["hash_ids"][1] != second["hash_ids"][1]
    assert "trace.jsonl: 2 requests in 20m" in result.stdout
    assert "1,152 tokens in (25.00% of them cached), 70 out" in result.stdout
    read = tandem("simulate", "-f", pool, *PROFILE, "--trace", "trace.jsonl")
    assert read.exit_code == 0, read.output
    assert "2 requests" in read.stdout


def test_several_routers_and_pages_are_one_trace_by_time(cluster, add_router, now_s):
    add_router(
        "chat-router-a",
        page([now_s - 300.0, 10, 0, 1, True, ""], now_s=now_s, next=1),
        page([now_s - 100.0, 30, 0, 3, True, ""], now_s=now_s, next=None),
    )
    # Its clock is an hour fast.
    add_router("chat-router-b", page([now_s + 3400.0, 20, 0, 2, True, ""], now_s=now_s + 3600.0))

    result = tandem("record", "chat", "-o", "-")

    assert [row["input_length"] for row in lines(result.stdout)] == [10, 20, 30]
    assert "by 2 routers" in result.stderr
    assert sorted(cluster.forwarded) == ["chat-router-a", "chat-router-b"]


def test_only_what_came_since_then_is_recorded(cluster, add_router, now_s):
    ages = (700.0, 200.0, 10.0)
    rows = [[now_s - age_s, int(age_s), 0, 1, True, ""] for age_s in ages]
    add_router("chat-router-0", page(*rows, now_s=now_s))

    result = tandem("record", "chat", "--since", "5m", "-o", "-")

    assert [row["input_length"] for row in lines(result.stdout)] == [200, 10]


def test_answers_that_are_not_whole_are_drawn_from_the_others_and_told(cluster, add_router, now_s):
    add_router(
        "chat-router-0",
        page(
            [now_s - 30.0, 100, 0, 77, True, ""],
            [now_s - 20.0, 100, None, 3, False, ""],
            now_s=now_s,
            inside=[[now_s - 10.0, 100, None, 0, False, ""]],
        ),
    )

    result = tandem("record", "chat", "-o", "-")

    assert [row["output_length"] for row in lines(result.stdout)] == [77, 77, 77]
    assert "note: 2 requests have no whole answer" in result.stderr


def test_a_router_that_is_younger_than_the_record_is_told(cluster, add_router, now_s):
    row = [now_s - 30.0, 100, 0, 77, True, ""]
    add_router("chat-router-a", page(row, now_s=now_s))
    add_router("chat-router-b", page(row, now_s=now_s, complete_since_s=now_s - 60.0))

    result = tandem("record", "chat", "-o", "-")

    assert "note: router chat-router-b reports only the last 1m" in result.stderr


def test_a_record_begins_when_its_first_router_did(cluster, add_router, now_s):
    row = [now_s - 30.0, 100, 0, 77, True, ""]
    add_router("chat-router-a", page(row, now_s=now_s, complete_since_s=now_s - 60.0))

    result = tandem("record", "chat", "-o", "-")

    assert "note: the routers report only the last 1m" in result.stderr
    assert "1 requests in 1m" in result.stderr


def test_a_router_that_cannot_be_asked_is_told_and_the_others_are_recorded(
    cluster, add_router, now_s
):
    add_router("chat-router-a", page([now_s - 30.0, 10, 0, 7, True, ""], now_s=now_s))
    add_router("chat-router-b", {"schema": 7})

    result = tandem("record", "chat", "-o", "-")

    assert len(lines(result.stdout)) == 1
    assert "note: router chat-router-b answers 200 with something else: /requests: " in (
        result.stderr
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("other",), "no InferencePool other in namespace team; there are chat"),
        (("chat",), "no router of team/chat runs; look at `kubectl get pods -n team -l"),
        (("chat", "--context", "nowhere"), "no cluster to ask: "),
    ],
)
def test_what_is_not_there_is_one_sentence(cluster, words, said):
    assert said in failed(tandem("record", *words, "-o", "-"))


def test_a_user_without_the_right_to_forward_ports_is_told_which_right_it_takes(
    cluster, add_router, now_s
):
    add_router("chat-router-0", page(now_s=now_s))
    cluster.refused = 403

    assert "`get` and `create` of pods/portforward" in failed(tandem("record", "chat"))


def test_what_the_kubelet_says_of_a_closed_port_is_passed_on(cluster, add_router, now_s):
    add_router("chat-router-0", page(now_s=now_s))
    cluster.error = "an error occurred forwarding 9100: connection refused"

    assert "forwarding 9100: connection refused" in failed(tandem("record", "chat"))


def test_a_router_of_before_is_told_to_be_updated(cluster, add_router):
    add_router("chat-router-0", {"error": {"message": "Served here: /metrics"}}).status = 404

    assert "too old to report single requests; update the operator" in failed(
        tandem("record", "chat")
    )


def test_a_pool_without_traffic_is_no_trace(cluster, add_router, now_s):
    add_router("chat-router-0", page(now_s=now_s))

    said = failed(tandem("record", "chat", "--since", "90s"))

    assert "no request came in the last 1m30s at the routers of chat" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--since", "1h"), "--since must be at most 20m, which routers keep; got '1h'"),
        (("--since", "soon"), "--since must be a duration"),
        (("-o", "none/trace.jsonl"), "the folder none does not exist"),
    ],
)
def test_senseless_options_are_refused_before_any_router_is_asked(cluster, words, said):
    assert said in sentence(tandem("record", "chat", *words))
    assert cluster.forwarded == []


async def ask(port: int, prompts: list[list[int]]) -> None:
    async with aiohttp.ClientSession() as client:
        for prompt in prompts:
            body = {"model": "tiny", "prompt": prompt}
            async with client.post(f"http://127.0.0.1:{port}/v1/completions", json=body) as answer:
                assert answer.status == 200


def test_the_traffic_of_a_real_router_is_recorded_with_what_begins_alike(cluster, tmp_path):
    async def start():
        engine = await FakeEngine("d0").start()
        return await serving(tmp_path, engine)

    process, started = do(cluster, start())
    shared = [7] * 1400
    do(cluster, ask(started["port"], [shared + [1] * 300, shared + [2] * 300, [3] * 1700]))
    cluster.routers["chat-router-0"] = ("127.0.0.1", started["internal_port"])

    result = tandem("record", "chat", "-o", "-")

    process.kill()
    do(cluster, process.wait())
    assert result.exit_code == 0, result.output
    rows = lines(result.stdout)
    assert [(row["input_length"], row["output_length"]) for row in rows] == [(1700, 4)] * 3
    one, two, other = (row["hash_ids"] for row in rows)
    assert len(one) == 3
    assert one[:2] == two[:2]
    assert not set(one[2:]) & set(two)
    assert not set(one) & set(other)
