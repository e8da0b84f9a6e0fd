"""The figures made of measured engines; the engine tests show that engines are measured at all."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.engines import report
from benchmarks.engines.answers import compared
from benchmarks.engines.loads import (
    decode_traffic,
    overload,
    prefill_traffic,
    whole_traffic,
)
from benchmarks.engines.timing import Step
from tandem_contracts.router_settings import PaceSettings
from tandem_engine.serve.measure import PrefillTime
from tandem_operator.cli.input.profiles import profile_of

MEASURED = Path(report.__file__).with_name("h100-llama-3.1-8b.json")
OVERLOADED = MEASURED.with_stem(MEASURED.stem + "-overload")


@pytest.fixture
def found() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(MEASURED.read_text())
    return content


def test_the_profile_gives_back_what_was_measured(found: dict[str, Any]) -> None:
    profile = report.engine_profile(found)

    for each in found["prefill"]:
        assert profile.prefill.at(each["prompt_tokens"]) == pytest.approx(each["seconds"])
    for each in found["steps"]:
        batch, context = each["batch"], each["context_tokens"]
        # Where contexts cross over, a line through the neighbours of a batch is drawn.
        assert profile.step_s(batch, batch * context) == pytest.approx(each["seconds"], rel=0.06)


def test_the_profile_that_ships_is_made_of_these_figures(found: dict[str, Any]) -> None:
    ours, ships = report.engine_profile(found), profile_of("h100-llama-3.1-8b")

    assert ships.prefill == ours.prefill
    assert ships.step_s(64, 64 * 1048) == pytest.approx(ours.step_s(64, 64 * 1048), rel=1e-3)
    assert ships.kv_bytes_per_token == ours.kv_bytes_per_token == 131072
    assert ships.kv_capacity_tokens > ours.kv_capacity_tokens


def test_every_kind_of_guess_is_set_beside_the_tables(found: dict[str, Any]) -> None:
    header, _, row = report.guessed(found)

    assert header.count("|") == row.count("|")
    assert row.count("%") == 2 * (header.count("|") - 1)


def test_traffic_is_played_again_as_it_was_sent(found: dict[str, Any]) -> None:
    rows = [line for line in report.simulated(found) if line.startswith(("| prefill", "| decode"))]

    assert [line.split(",")[0].strip("| ") for line in rows] == [
        *("prefill-0.5", "prefill-0.8"),
        *("decode-16", "decode-48"),
    ]
    assert all("%" in line for line in rows)


def test_what_an_engine_tells_of_itself_is_read_for_both_roles(found: dict[str, Any]) -> None:
    start_up = report.start_up_of(found)

    assert [tokens for tokens, _ in start_up.prefill] == [32, 1024]
    assert [batch for batch, _ in start_up.steps] == [1, 256]
    assert start_up.hardware is not None
    assert start_up.hardware.device == "NVIDIA H100 80GB HBM3"


def test_prefill_traffic_keeps_the_engine_busy_for_its_share() -> None:
    found = [PrefillTime(32, 0.1), PrefillTime(16384, 0.1)]

    half, most = prefill_traffic(found, duration_s=30.0)

    assert half.rate_rps == pytest.approx(5.0)
    assert most.rate_rps == pytest.approx(8.0)


def test_decode_traffic_keeps_about_that_many_streams() -> None:
    found = [Step(batch, 536, 0.01) for batch in (1, 16, 64)]

    few, many = decode_traffic(found, duration_s=30.0)

    assert few.rate_rps == pytest.approx(16 / (200 * 0.01))
    assert many.rate_rps == pytest.approx(48 / (200 * 0.01))


def choice(*tokens: int, chances: tuple[float, ...], second: float = -3.0) -> dict[str, Any]:
    tops = [{"a": chance, "b": second} for chance in chances]
    return {
        "token_ids": list(tokens),
        "logprobs": {"token_logprobs": list(chances), "top_logprobs": tops},
    }


def test_answers_are_compared_up_to_the_first_other_token() -> None:
    one = choice(5, 6, 7, chances=(-1.0, -1.0, -2.9))
    other = choice(5, 6, 8, chances=(-1.0, -1.25, -2.95))

    assert compared(one, one) == (3, 3, 0.0, None)
    assert compared(one, other) == (2, 3, 0.25, 0.1)


def test_the_overload_is_more_than_the_streams_that_keep_its_bound() -> None:
    steps = [
        Step(batch, context, 0.004 + 1e-3 * batch + 1e-6 * batch * context)
        for batch in (1, 2, 4, 8, 16, 32, 64)
        for context in (512, 1024, 2048, 4096)
    ]

    over = overload(steps, kv_capacity_tokens=100_000, max_num_seqs=64, duration_s=10.0)

    pace = PaceSettings.model_validate(over.pace)
    context = 48.0 + 300.0
    step_s = pace.seconds(16.0, 16.0 * context)
    assert step_s == pytest.approx(0.004 + 0.016 + 1e-6 * 16 * context, rel=0.05)
    assert step_s == pytest.approx(0.95 * over.slo.tpot_s)
    assert over.traffic.rate_rps * 600.0 * step_s == pytest.approx(1.5 * 16)
    assert over.calm.rate_rps * 600.0 * step_s == pytest.approx(0.7 * 16)


def test_steps_that_traffic_makes_slower_are_learned_from_calm_traffic() -> None:
    steps = [Step(batch, 512, 0.004 + 1e-3 * batch) for batch in (1, 2, 4, 8, 16, 32, 64)]
    alone = overload(steps, kv_capacity_tokens=100_000, max_num_seqs=64, duration_s=10.0)
    streams = 12.0
    tpot_s = streams / (alone.calm.rate_rps * 600.0)

    busy = alone.learned(tpot_s)

    pace = PaceSettings.model_validate(busy.pace)
    assert pace.seconds(streams, streams * 348.0) == pytest.approx(tpot_s)
    assert busy.slo.tpot_s == pytest.approx(pace.seconds(16.0, 16.0 * 348.0) / 0.95)
    assert busy.streams == 16


def test_whole_prompts_take_their_share_of_the_decode_engine() -> None:
    found = [PrefillTime(32, 0.1), PrefillTime(16384, 0.1)]

    traffic = whole_traffic(found, duration_s=30.0)

    assert {share: round(one.rate_rps, 9) for share, one in traffic.items()} == {
        0.1: 1.0,
        0.2: 2.0,
        0.3: 3.0,
    }


def test_streams_beside_whole_prompts_are_set_beside_what_is_expected() -> None:
    measured = json.loads(OVERLOADED.read_text())

    _, _, *rows = report.stalled(measured)

    shares = [float(row.split("|")[1]) for row in rows]
    assert shares == pytest.approx([0.1, 0.2, 0.3], abs=0.02)
    alone_ms = measured["streams-0"]["tpot_p50_s"] * 1e3
    for row, share in zip(rows, shares, strict=True):
        expected_ms = float(row.split("|")[3].split()[0])
        assert expected_ms == pytest.approx(alone_ms / (1.0 - share), rel=0.01)
    measured["whole-0.1"]["requests"] = 0
    assert len(list(report.stalled(measured))) == 4


def test_an_overload_is_shown_with_and_without_the_gate() -> None:
    measured = json.loads(OVERLOADED.read_text())

    header, _, unlimited, gate = report.overloaded(measured)

    assert "(bound 9.0)" in header
    assert unlimited.startswith("| unlimited | 55 of 849 (6%) |")
    assert gate.startswith("| gate | 512 of 786 (65%) |")
