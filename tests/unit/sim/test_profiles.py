"""Engine profiles meet the points they were given, and go on sensibly between and past them."""

import json
from dataclasses import replace
from math import nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_operator.sim.engines.profile import Curve, rising
from tandem_operator.sim.engines.profile_files import ProfileError, read_profile
from tests.unit.sim.setups import ENGINE

MEASURED = {
    "prefill": {"prefill_isl": [100, 1000, 2000], "prefill_ttft": [10.0, 40.0, 80.0]},
    "decode": {
        "x_kv_usage": [0.01, 0.5, 0.01, 0.5],
        "y_context_length": [500.0, 500.0, 4000.0, 4000.0],
        "z_itl": [5.0, 25.0, 5.0, 15.0],
        "max_kv_tokens": [100_000],
    },
}
TABLES = {
    "tables": [
        {
            "system": "h200_sxm",
            "model": "some/Model-8B",
            "tp": 1,
            "prefill_ms": {"128": 8.0, "1024": 20.0},
            "decode_itl_ms": {"512": {"1": 5.0, "64": 9.0}, "4096": {"1": 5.0, "64": 20.0}},
        }
    ]
}


def measured() -> str:
    return json.dumps(MEASURED)


def test_a_measured_grid_is_met_at_its_points() -> None:
    profile = read_profile(measured(), source="grid.json")

    assert profile.service_s(1000) == pytest.approx(0.040)
    assert profile.step_s(100, 50_000) == pytest.approx(0.025)
    assert profile.step_s(12.5, 50_000) == pytest.approx(0.015)  # type: ignore[arg-type]
    assert profile.kv_capacity_tokens == 100_000


def test_tables_are_met_at_their_points_and_picked_by_name() -> None:
    profile = read_profile(json.dumps(TABLES), source="t.json", table="h200_sxm/Model-8B/tp1")

    assert profile.service_s(1024) == pytest.approx(0.020)
    assert profile.step_s(64, 64 * 4096) == pytest.approx(0.020)
    assert profile.step_s(64, 64 * 2304) == pytest.approx(0.0145)


def test_attention_makes_long_prompts_dearer_than_their_chunks_alone() -> None:
    curve = rising([(x, 0.01 + 1e-5 * x + 1e-9 * x * x) for x in range(0, 8193, 1024)])
    profile = replace(ENGINE, prefill=curve)

    for prompt in (1500, 8192, 40_000):
        passes = -(-prompt // 8192)
        expected = passes * 0.01 + 1e-5 * prompt + 1e-9 * prompt * prompt
        assert profile.service_s(prompt) == pytest.approx(expected)
    assert profile.service_s(9000, 8000) == pytest.approx(0.01 + 0.01 + 1e-9 * 17e6)


@given(st.integers(1, 200), st.integers(0, 100_000), st.integers(1, 5000))
def test_steps_take_longer_with_more_in_the_cache(batch: int, kv: int, more: int) -> None:
    profile = read_profile(measured(), source="grid.json")

    assert 0.0 < profile.step_s(batch, kv) <= profile.step_s(batch, kv + more) + 1e-12


@given(st.integers(1, 8000), st.integers(0, 7999))
def test_attention_of_two_chunks_is_that_of_the_whole(prompt: int, cut: int) -> None:
    cut = min(cut, prompt)
    profile = read_profile(measured(), source="grid.json")

    parts = profile.attention_s(0, cut) + profile.attention_s(cut, prompt - cut)

    assert parts == pytest.approx(profile.attention_s(0, prompt))


def test_prompts_of_one_pass_do_not_attend_to_each_other() -> None:
    curve = rising([(x, 0.01 + 1e-5 * x + 1e-9 * x * x) for x in range(0, 8193, 1024)])
    profile = replace(ENGINE, prefill=curve)

    mixed = profile.pass_s([(0, 1000), (0, 3000)])
    even = profile.pass_s([(0, 2000), (0, 2000)])

    assert mixed == pytest.approx(0.01 + 1e-5 * 4000 + 1e-9 * (1000**2 + 3000**2))
    assert even == pytest.approx(0.01 + 1e-5 * 4000 + 1e-9 * 2 * 2000**2)
    by_mean = replace(profile, attention_by_mean=True)
    assert by_mean.pass_s([(0, 1000), (0, 3000)]) == pytest.approx(even)


def with_field(name: str, value: object) -> str:
    [table] = TABLES["tables"]
    return json.dumps({"tables": [table | {name: value}]})


def with_attention(ms_per_token2: float) -> str:
    return with_field("prefill_attention_ms_per_token2", ms_per_token2)


def test_a_table_may_say_what_new_tokens_attend_to_each_other() -> None:
    told, curve = (
        read_profile(text, source="t.json", table="h200_sxm/Model-8B/tp1")
        for text in (with_attention(2e-6), json.dumps(TABLES))
    )

    assert told.attention_s(0, 1000) == pytest.approx(2e-9 * 1000**2)
    assert told.attention_s(500, 1000) - told.attention_s(0, 1000) == pytest.approx(
        curve.attention_s(500, 1000) - curve.attention_s(0, 1000)
    )
    assert told.service_s(1024) == pytest.approx(curve.service_s(1024)) == pytest.approx(0.02)


def test_attention_below_zero_is_refused() -> None:
    with pytest.raises(ProfileError, match="prefill_attention_ms_per_token2 must be at least 0"):
        read_profile(with_attention(-1.0), source="t.json", table="h200_sxm/Model-8B/tp1")


def test_the_largest_batch_keeps_the_bound_and_one_more_does_not() -> None:
    batch = ENGINE.largest_batch(0.006, 1500)

    assert ENGINE.step_s(batch, batch * 1500) <= 0.006
    assert ENGINE.step_s(batch + 1, (batch + 1) * 1500) > 0.006


@pytest.mark.parametrize(
    ("text", "table", "sentence"),
    [
        ("{", None, "p.json:1: not JSON"),
        ("[]", None, "p.json: expected an object"),
        ("{}", None, "p.json: lacks the field 'prefill'"),
        (json.dumps(TABLES), "a100/x/tp1", "p.json: no table 'a100/x/tp1'; one of h200_sxm/"),
        (
            json.dumps(MEASURED | {"prefill": {"prefill_isl": [1], "prefill_ttft": [1]}}),
            None,
            "p.json: a curve needs at least 2 points",
        ),
        ("[" * 100_000, None, "p.json: a number too long or nesting too deep to read"),
        ("9" * 5000, None, "p.json: a number too long or nesting too deep to read"),
        (
            with_field("prefill_ms", [1, 2]),
            "h200_sxm/Model-8B/tp1",
            "p.json: 'list' object has no attribute",
        ),
        (
            with_field("prefill_ms", {"512": 10**400}),
            "h200_sxm/Model-8B/tp1",
            "p.json: int too large",
        ),
        (
            with_field("prefill_ms", {"512": nan}),
            "h200_sxm/Model-8B/tp1",
            "p.json: prefill_ms must be of milliseconds above 0",
        ),
        (
            with_field("prefill_ms", {"512": -1}),
            "h200_sxm/Model-8B/tp1",
            "p.json: prefill_ms must be of milliseconds above 0",
        ),
        (
            json.dumps(MEASURED | {"decode": MEASURED["decode"] | {"y_context_length": [0] * 4}}),
            None,
            "p.json: float division by zero",
        ),
    ],
)
def test_a_profile_that_cannot_be_read_is_named(
    text: str, table: str | None, sentence: str
) -> None:
    with pytest.raises(ProfileError) as raised:
        read_profile(text, source="p.json", table=table)

    assert str(raised.value).startswith(sentence)


def test_a_curve_out_of_order_is_refused() -> None:
    with pytest.raises(ValueError, match="rising order"):
        Curve(((2.0, 1.0), (1.0, 1.0)))
