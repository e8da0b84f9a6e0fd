import asyncio
import json
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from tandem_contracts.names import KEY_ENV
from tandem_engine.serve import measure as measuring
from tandem_engine.serve.engine_command import vllm_command
from tandem_engine.serve.launcher import EngineError, Launcher
from tests.unit.serve.engine import QUICK, Engine, until
from tests.unit.serve.given import facts, settings

Start = Callable[..., Engine]


@pytest.fixture
async def start(model: Path) -> AsyncIterator[Start]:
    async with aiohttp.ClientSession() as session:
        engines: list[Engine] = []

        def start_one(**changes: object) -> Engine:
            engines.append(Engine.start(model, session, **changes))
            return engines[-1]

        yield start_one
        for engine in engines:
            await engine.end()


async def test_an_engine_is_ready_only_after_a_completion_alone_and_one_at_full_batch(
    start: Start,
) -> None:
    engine = await start(max_num_seqs=4).ready()

    asked = (await engine.tell_vllm())["requests"]
    assert [len(body["prompt"]) for body in asked[:2]] == [1, 4]
    assert all(body["model"] == "tiny" for body in asked)


async def test_info_tells_what_the_operator_and_an_auditor_need(start: Start) -> None:
    engine = await start().ready()

    info = await engine.info()
    assert info["role"] == "decode"
    assert info["revision"] == "r1"
    assert info["kv_capacity_tokens"] == 32768
    assert info["max_model_len"] == 2048
    assert info["max_num_seqs"] == 4
    assert info["vllm_version"] == "0.32.0"
    assert info["warm_up"]["requests"] == 5
    assert info["warm_up"]["batch_1_s"] > 0
    assert info["phase"] == "ready"


async def test_a_warm_decode_engine_times_its_steps_alone_and_at_full_batch(start: Start) -> None:
    engine = await start(step_s=0.08, stream_s=0.04).ready()

    measured = (await engine.info())["measured"]
    alone, full = measured["decode_steps"]
    assert (alone["batch"], full["batch"]) == (1, 4)
    assert 0.08 < alone["seconds"] < full["seconds"]
    assert measured["prefill"] == []


async def test_a_warm_prefill_engine_times_a_short_and_a_long_prompt(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A machine that does much else is not taken for one that is slow.
    monkeypatch.setattr(measuring, "_BUDGET_S", 60.0)
    engine = await start(role="prefill", token_s=0.0001).ready()

    measured = (await engine.info())["measured"]
    short, long = measured["prefill"]
    assert (short["prompt_tokens"], long["prompt_tokens"]) == (32, 1024)
    assert short["seconds"] >= 0.0032
    assert long["seconds"] >= 0.1
    assert measured["decode_steps"] == []


async def test_a_moment_without_its_processor_shortens_no_measurement(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So much time that only the stand-in's stall is longer than what the long prompt may take.
    monkeypatch.setattr(measuring, "_BUDGET_S", 20.0)
    engine = await start(role="prefill", token_s=0.0001, fault="stalls-once").ready()

    short, long = (await engine.info())["measured"]["prefill"]
    assert long["prompt_tokens"] == 1024
    assert short["seconds"] < 2.0


async def test_an_engine_tells_the_shape_of_its_model(start: Start, model: Path) -> None:
    sizes = {"num_hidden_layers": 2, "hidden_size": 64, "vocab_size": 100}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128}
    (model / "config.json").write_text(json.dumps(sizes | heads))

    info = await (await start().ready()).info()

    # Keys and values of 2 heads of 16 in 2 layers, 2 bytes each.
    assert info["shape"]["kv_bytes_per_token"] == 256
    assert (info["device"], info["devices"]) == ("cpu", 1)


@pytest.mark.parametrize(
    ("gpu", "part", "told"),
    [
        ("NVIDIA H100 80GB HBM3", None, "NVIDIA H100 80GB HBM3"),
        ("NVIDIA H100 80GB HBM3", "MIG 1g.10gb", "NVIDIA H100 80GB HBM3 MIG 1g.10gb"),
        (None, "MIG 1g.10gb", None),
    ],
)
def test_an_engine_on_part_of_a_gpu_is_not_taken_for_a_whole_one(
    gpu: str | None, part: str | None, told: str | None
) -> None:
    given = settings(device="cuda", gpu_part=part)

    assert Launcher(given, vllm_command(given, facts()), gpu=gpu).device == told


@pytest.mark.parametrize("config", ["{}", "no longer JSON", "[]"])
async def test_an_engine_whose_model_has_no_shape_is_ready_all_the_same(
    start: Start, model: Path, config: str
) -> None:
    engine = start()
    (model / "config.json").write_text(config)

    info = await (await engine.ready()).info()

    assert info["phase"] == "ready"
    assert info["shape"] is None


async def test_a_vllm_that_is_too_busy_to_tell_of_itself_is_asked_again(start: Start) -> None:
    engine = await start(fault="answers-late", pace=replace(QUICK, answer_s=1.0)).ready()

    info = await engine.info()
    assert info["vllm_version"] == "0.32.0"
    assert (info["max_model_len"], info["kv_capacity_tokens"]) == (2048, 32768)


async def test_an_engine_that_cannot_be_measured_is_ready_all_the_same(start: Start) -> None:
    engine = await start(max_num_seqs=4, fault="fails-long-answers").ready()

    info = await engine.info()
    assert info["phase"] == "ready"
    assert info["measured"] is None


async def test_no_batch_is_measured_that_the_cache_does_not_hold(start: Start) -> None:
    engine = await start(max_num_seqs=200, step_s=0.1).ready()

    # The stand-in's cache holds 32,768 tokens.
    steps = (await engine.info())["measured"]["decode_steps"]
    assert [step["batch"] for step in steps] == [1, 128]


async def test_info_counts_every_request_of_its_own(start: Start) -> None:
    engine = await start().ready()

    async def counts_what_came() -> bool:
        info, asked = await engine.info(), (await engine.tell_vllm())["requests"]
        own = (info["warm_up"], info["measured"], info["probes"])
        counted = sum(part["requests"] for part in own if part)
        return counted == sum(len(body["prompt"]) for body in asked)

    # A probe may come between the two answers.
    await until(counts_what_came)


async def test_a_decode_engine_pulls_from_a_prefill_engine_that_answers(start: Start) -> None:
    prefill = await start(role="prefill").ready()
    decode = await start(warm_up_peer=prefill.settings.url).ready()

    pull = (await decode.info())["warm_up"]["kv_pull"]
    assert pull["state"] == "done"
    assert pull["tokens"] > 0
    asked = (await prefill.tell_vllm())["requests"][-1]
    assert asked["kv_transfer_params"]["do_remote_decode"] is True
    assert asked["max_tokens"] == 1


async def test_start_up_does_not_wait_for_a_peer_that_is_not_there(start: Start) -> None:
    engine = await start(warm_up_peer="http://127.0.0.1:9", warm_up_peer_timeout_s=0.1).ready()

    pull = (await engine.info())["warm_up"]["kv_pull"]
    assert pull["state"] == "skipped"
    assert "http://127.0.0.1:9" in pull["reason"]


async def test_probes_follow_the_phases(start: Start) -> None:
    engine = start()
    await until(lambda: engine.probe("/live"))
    assert await engine.probe("/startup") == 503
    assert await engine.probe("/ready") == 503

    await engine.ready()
    assert await engine.probe("/startup") == 200
    assert await engine.probe("/live") == 200


@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="no IPv6 here")
async def test_probes_are_answered_at_an_ipv6_address_too(start: Start) -> None:
    engine = start(host=None)
    await until(lambda: engine.probe("/live"))

    url = f"http://[::1]:{engine.settings.control_port}/live"
    async with engine.session.get(url) as answer:
        assert answer.status == 200


async def keeps_running(engine: Engine) -> None:
    # Two looks of the drain: the second one is what would have ended it.
    for _ in range(2):
        done, _ = await asyncio.wait([engine.task], timeout=0.3)
        assert not done


async def test_a_running_request_keeps_vllm_up_after_the_signal(start: Start) -> None:
    engine = await start().ready()
    await engine.tell_vllm(running=1)

    engine.launcher.signalled()

    assert await engine.probe("/ready") == 503
    assert await engine.probe("/live") == 200
    await keeps_running(engine)
    await engine.tell_vllm(running=0, finished=1)
    await engine.stopped()


async def test_an_outstanding_kv_lease_keeps_vllm_up_after_the_signal(start: Start) -> None:
    engine = await start(role="prefill").ready()
    await engine.tell_vllm(kv_usage=0.25)
    engine.launcher.signalled()

    await keeps_running(engine)
    await engine.tell_vllm(kv_usage=0.0)
    await engine.stopped()


async def test_the_deadline_ends_a_drain_that_would_not(start: Start) -> None:
    engine = await start(drain_timeout_s=0.5).ready()
    await engine.tell_vllm(running=1)

    engine.launcher.signalled()

    await engine.stopped()


async def test_a_second_signal_ends_the_drain_at_once(start: Start) -> None:
    engine = await start(drain_timeout_s=3600).ready()
    await engine.tell_vllm(running=1)

    engine.launcher.signalled()
    engine.launcher.signalled()

    await engine.stopped()


async def test_a_signal_during_the_start_stops_without_a_drain(start: Start) -> None:
    engine = start(drain_timeout_s=3600)
    await until(lambda: engine.probe("/live"))

    engine.launcher.signalled()

    await engine.stopped()


@pytest.mark.parametrize("path", ["/drain", "/live", "/ready", "/info"])
async def test_the_control_port_accepts_no_command(start: Start, path: str) -> None:
    engine = await start().ready()
    url = f"http://127.0.0.1:{engine.settings.control_port}{path}"

    for method in ("POST", "PUT", "DELETE"):
        async with engine.session.request(method, url) as answer:
            assert answer.status in (404, 405)

    assert await engine.probe("/ready") == 200


async def test_with_a_key_the_launcher_warms_up_and_measures_with_it(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    # vLLM inherits it: the printed command holds no secret.
    monkeypatch.setenv(KEY_ENV, "open-sesame")
    engine = await start(key="open-sesame").ready()

    assert "open-sesame" not in str(engine.launcher.command)
    assert "open-sesame" not in str(engine.launcher)
    assert (await engine.info())["measured"] is not None
    with pytest.raises(aiohttp.ClientResponseError, match="401"):
        async with engine.session.post(f"{engine.settings.url}/v1/completions") as answer:
            answer.raise_for_status()


async def test_a_launcher_without_the_key_says_that_the_engine_refused_it(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_ENV, "open-sesame")

    with pytest.raises(EngineError, match="401"):
        await start().stopped()


async def test_a_dead_vllm_ends_the_launcher_with_its_last_error(start: Start) -> None:
    engine = await start().ready()

    with pytest.raises(aiohttp.ClientError):
        await engine.tell_vllm(exit=3)

    with pytest.raises(EngineError, match=r"code 3 while ready: ValueError: the weights are not"):
        await engine.stopped()


async def test_a_vllm_that_dies_with_requests_in_its_drain_is_told_of(start: Start) -> None:
    engine = await start().ready()
    await engine.tell_vllm(running=1)
    engine.launcher.signalled()

    with pytest.raises(aiohttp.ClientError):
        await engine.tell_vllm(exit=3)

    with pytest.raises(EngineError, match=r"code 3 while draining: ValueError: the weights"):
        await engine.stopped()


async def test_a_vllm_that_never_starts_is_told_by_its_cause(start: Start) -> None:
    engine = start(fault="dies-at-start")

    with pytest.raises(EngineError, match=r"while starting: ValueError: the weights are not"):
        await engine.stopped()


async def test_an_engine_that_fails_its_first_completion_never_gets_ready(
    start: Start,
) -> None:
    engine = start(fault="fails-completions")

    with pytest.raises(EngineError, match=r"first completion failed.*no such kernel"):
        await engine.stopped()


async def test_a_dead_engine_behind_a_living_server_is_not_live(
    start: Start,
) -> None:
    engine = await start().ready()

    await engine.tell_vllm(health=503)

    async def dead() -> bool:
        return await engine.probe("/live") == 503

    await until(dead)
    assert await engine.probe("/ready") == 503


async def test_a_dead_engine_stays_dead_when_its_server_goes_too(
    start: Start,
) -> None:
    engine = await start().ready()
    await engine.tell_vllm(health=503)

    async def dead() -> bool:
        return await engine.probe("/live") == 503

    await until(dead)
    # The server closes its port a while before its process ends.
    await engine.tell_vllm(deaf=True)
    done, _ = await asyncio.wait([engine.task], timeout=0.5)
    assert not done
    assert await engine.probe("/live") == 503


def impatient(start: Start, **changes: object) -> Engine:
    """Return an engine whose stillness soon counts."""
    bounds = {"not_ready_after_s": 2.0, "not_live_after_s": 3600.0}
    return start(pace=replace(QUICK, answer_s=1.5), **(bounds | changes))


def becomes(engine: Engine, path: str, status: int) -> Callable[[], Awaitable[bool]]:
    async def is_so() -> bool:
        return await engine.probe(path) == status

    return is_so


@pytest.mark.parametrize("work", [0, 3], ids=["idle", "with work in it"])
async def test_a_core_that_hangs_behind_a_living_server_is_not_ready_until_it_makes_a_token(
    start: Start, work: int
) -> None:
    engine = await impatient(start).ready()

    await engine.tell_vllm(hung=True, running=work)
    await until(becomes(engine, "/ready", 503))

    assert await engine.probe("/live") == 200
    said = await engine.words("/ready")
    assert "it has generated no token" in said
    assert f"last known requests: {work})" in said
    assert "its HTTP server answers" in said
    assert (await engine.info())["reason"] == said.strip()
    await engine.tell_vllm(hung=False)
    await until(becomes(engine, "/ready", 200))
    assert (await engine.info())["reason"] is None


async def test_a_core_that_hangs_for_long_is_ended_with_the_reason(start: Start) -> None:
    engine = await start(
        not_ready_after_s=1.0, not_live_after_s=3.0, pace=replace(QUICK, answer_s=0.3)
    ).ready()

    await engine.tell_vllm(hung=True)

    with pytest.raises(EngineError, match=r"hangs: it has .* since \d{4}-.*Z, .* restarts it"):
        await engine.stopped()


async def test_a_server_that_answers_nothing_is_not_ready_either(start: Start) -> None:
    engine = await impatient(start).ready()

    engine.signal_vllm(signal.SIGSTOP)
    await until(becomes(engine, "/ready", 503))

    assert "its HTTP server does not answer" in await engine.words("/ready")
    engine.signal_vllm(signal.SIGCONT)
    await until(becomes(engine, "/ready", 200))


async def test_a_vllm_that_stands_still_as_a_whole_is_ended_too(start: Start) -> None:
    engine = await start(
        not_ready_after_s=1.0, not_live_after_s=3.0, pace=replace(QUICK, answer_s=0.3)
    ).ready()

    engine.signal_vllm(signal.SIGSTOP)

    with pytest.raises(EngineError, match="its HTTP server does not answer"):
        await engine.stopped()


async def test_an_idle_engine_proves_itself_by_a_token_now_and_then(start: Start) -> None:
    engine = await impatient(start).ready()
    before = (await engine.tell_vllm())["requests"]

    async def has_sent_three() -> bool:
        probes = (await engine.info())["probes"]
        return probes is not None and probes["requests"] >= 3

    await until(has_sent_three)
    asked = (await engine.tell_vllm())["requests"][len(before) :]
    assert {(len(body["prompt"][0]), body["max_tokens"]) for body in asked} == {(1, 1)}
    await until(becomes(engine, "/ready", 200))


async def test_a_leaving_engine_is_asked_for_no_token(start: Start) -> None:
    engine = await impatient(start).ready()
    await engine.tell_vllm(running=1)
    engine.launcher.signalled()
    await engine.tell_vllm(hung=True)
    # One that was on its way has come by then.
    await asyncio.sleep(0.5)
    before = len((await engine.tell_vllm())["requests"])

    # Twice as long as until it would be doubted.
    done, _ = await asyncio.wait([engine.task], timeout=4.0)

    assert not done
    assert len((await engine.tell_vllm())["requests"]) == before
    assert await engine.words("/ready") == "draining\n"


async def test_a_core_that_waits_for_kv_blocks_is_given_a_leases_time(start: Start) -> None:
    engine = await impatient(start).ready()

    await engine.tell_vllm(hung=True, waiting=3, kv_usage=0.9)

    async def asks_for_a_token() -> bool:
        probes = (await engine.info())["probes"]
        return probes is not None and probes["requests"] >= 1

    await until(asks_for_a_token)
    # Twice as long as until it would be doubted.
    await asyncio.sleep(4.0)
    assert await engine.probe("/ready") == 200


async def test_a_taken_control_port_is_named(start: Start) -> None:
    first = await start().ready()

    second = start(control_port=first.settings.control_port)

    with pytest.raises(EngineError, match=r"--control-port: .* choose another port"):
        await second.stopped()
