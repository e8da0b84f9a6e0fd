import json

import pytest

from tandem_operator.core.observation import SickPod, TenantWindow
from tandem_operator.core.role import Role
from tandem_operator.metrics.router_arrivals import parse_arrivals

REPORT = {
    "schema": 1,
    "router": "tiny-router-abc",
    "started_s": 1000.5,
    "now_s": 1100.2,
    "bucket_edges_tokens": [128, 512],
    "arrivals": [[1050, [0, 2, 0], [0, 411, 0], 96]],
    "cached_by_bucket": [[1050, [0, 96, 0]]],
    "best_effort": [1052],
    "finished": [
        [
            1051,
            {
                "finished": 2,
                "good": 1,
                "late_ttft": 1,
                "late_tpot": 0,
                "failed": 0,
                "shed": 0,
                "gone": 0,
                "output_tokens": 60,
                "output_tokens_squared": 2600,
                "blame": {"router_queue": 1},
                "echoes": {"router_queue": 1},
            },
        ]
    ],
    "in_system": {
        "queued_requests": 0,
        "queued_prompt_tokens": 0,
        "prefill_requests": 1,
        "decode_requests": 4,
        "held_prompt_tokens": 300,
        "overdue_requests": 2,
        "held_overdue_requests": 1,
    },
    "legs": [
        {
            "pod": "tiny-prefill-x",
            "role": "prefill",
            "busy_s": 12.3,
            "requests": 40,
            "prompt_tokens": 30000,
            "cached_tokens": 0,
            "prompt_token_contexts": 25000000,
            "output_tokens": 0,
        }
    ],
    "sick": [{"pod": "tiny-decode-y", "role": "decode", "since_s": 1090.0, "reason": "kv"}],
    "cache_worth_tokens": {"tiny-prefill-x": 7000},
}


def parsed(now_s=1100.4, **changes):
    return parse_arrivals(json.dumps({**REPORT, **changes}).encode(), now_s=now_s)


def test_reads_the_documented_answer():
    report = parsed()

    assert report.arrivals[0].prompt_tokens == (0, 411, 0)
    assert report.arrivals[0].cached_by_bucket == (0, 96, 0)
    assert report.best_effort == (1052,)
    assert report.finished[0].blame == {"router_queue": 1}
    assert report.finished[0].echoes == {"router_queue": 1}
    assert report.legs[0].role is Role.PREFILL
    assert report.decode_requests == 4
    assert (report.held_prompt_tokens, report.overdue_requests) == (300, 2)
    assert report.held_overdue_requests == 1
    assert report.started_s == 1000.5
    assert report.sick == (SickPod("tiny-decode-y", Role.DECODE, 1090.0, "kv"),)
    assert report.cache_worth_tokens == {"tiny-prefill-x": 7000}


def test_a_report_of_an_older_router_is_accepted():
    older = dict.fromkeys(("queued_requests", "queued_prompt_tokens"), 0)
    report = parsed(in_system={**older, "prefill_requests": 1, "decode_requests": 4})

    assert (report.held_prompt_tokens, report.overdue_requests) == (0, 0)


def test_an_older_router_tells_cached_tokens_of_all_lengths_together():
    older = {name: value for name, value in REPORT.items() if name != "cached_by_bucket"}

    (second,) = parse_arrivals(json.dumps(older).encode(), now_s=1100.4).arrivals

    assert (second.cached_tokens, second.cached_by_bucket) == (96, ())


def test_cached_tokens_stay_with_their_second_if_a_clock_is_wrong():
    (second,) = parsed(now_s=2100.4).arrivals

    assert (second.second, second.cached_by_bucket) == (2050, (0, 96, 0))


def test_cached_tokens_of_other_buckets_than_the_prompts_are_refused():
    with pytest.raises(ValueError, match="cached tokens of second 1050 need 3 buckets"):
        parsed(cached_by_bucket=[[1050, [0, 96]]])


def test_a_report_tells_of_tenants_if_the_pool_has_any():
    acme = {"name": "acme", "window_s": 120, "finished": 3, "good": 2, "too_late": 1}
    told = acme | {"limited": 4, "output_tokens": 90}

    assert parsed(tenants=[told]).tenants == (TenantWindow(**told),)
    assert parsed().tenants == ()


def test_a_router_that_tells_of_no_echoes_has_none():
    [[second, row]] = REPORT["finished"]
    older = [[second, {name: value for name, value in row.items() if name != "echoes"}]]

    assert parsed(finished=older).finished[0].echoes == {}


def test_an_older_router_knows_of_no_sick_engine_and_of_no_worth():
    newer = ("sick", "cache_worth_tokens")
    older = {name: value for name, value in REPORT.items() if name not in newer}

    report = parse_arrivals(json.dumps(older).encode(), now_s=1100.4)

    assert (report.sick, report.cache_worth_tokens) == ((), {})


def test_since_when_an_engine_is_sick_is_told_on_this_clock():
    assert parsed(now_s=2100.4).sick[0].since_s == pytest.approx(2090.0, abs=1.0)


def test_fields_of_a_newer_router_are_ignored():
    assert parsed(weather="fine").router == "tiny-router-abc"


def test_a_router_with_a_wrong_clock_is_put_on_ours_by_whole_seconds():
    report = parsed(now_s=1160.4)

    assert report.arrivals[0].second == 1110
    assert report.finished[0].second == 1111
    assert report.started_s == 1060.5


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"schema": 2}, "schema"),
        ({"arrivals": [[1050, [0, 2], [0, 411], 96]]}, "3 buckets"),
        ({"arrivals": [[1050, [0, -2, 0], [0, 411, 0], 96]]}, "arrivals"),
        ({"started_s": float("nan")}, "started_s"),
        ({"in_system": {}}, "in_system.queued_requests"),
        ({"legs": [{**REPORT["legs"][0], "busy_s": -1}]}, "legs.0.busy_s"),
    ],
)
def test_a_wrong_report_is_refused_by_the_name_of_its_fault(changes, named):
    with pytest.raises(ValueError, match=named):
        parsed(**changes)


def test_a_page_that_is_no_json_is_refused():
    with pytest.raises(ValueError, match="/arrivals: document"):
        parse_arrivals(b"<html>", now_s=1.0)
