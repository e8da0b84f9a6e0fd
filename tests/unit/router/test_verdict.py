"""The verdict on one request: parts, outcome, blame."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_contracts.router_settings import SloSettings
from tandem_routing.verdict import (
    Cause,
    Ending,
    Outcome,
    Timeline,
    blame,
    judge,
    ttft_parts,
)

SLO = SloSettings(ttft_s=1.0, ttft_s_per_thousand_prompt_tokens=0.5, tpot_s=0.1)
GOOD = Timeline(
    received_s=100.0,
    dispatched_s=100.1,
    prefill_started=True,
    prefill_ended_s=100.4,
    first_token_s=100.5,
    last_token_s=101.4,
    service_s=0.2,
    transfer_s=0.03,
)


def verdict(timeline: Timeline, ending: Ending = Ending.ANSWERED, *, ended_s: float = 102.0):
    return judge(timeline, ending, ended_s=ended_s, slo=SLO, prompt_tokens=100, output_tokens=10)


def test_the_parts_of_a_good_request_are_what_was_measured() -> None:
    parts = ttft_parts(GOOD, until_s=100.5)

    assert parts == pytest.approx(
        {
            Cause.ROUTER_QUEUE: 0.1,
            Cause.PREFILL: 0.2,
            Cause.ENGINE_QUEUE: 0.1,
            Cause.TRANSFER: 0.03,
            Cause.DECODE_ADMISSION: 0.07,
        }
    )


durations = st.floats(0, 100)


@given(
    steps=st.tuples(durations, durations, durations),
    held_s=durations,
    service_s=st.none() | durations,
    transfer_s=st.none() | durations,
    prefill=st.booleans(),
    reached=st.integers(0, 3),
)
def test_parts_always_sum_to_ttft_and_none_is_negative(
    *,
    steps: tuple[float, float, float],
    held_s: float,
    service_s: float | None,
    transfer_s: float | None,
    prefill: bool,
    reached: int,
) -> None:
    dispatched_s = 50.0 + steps[0]
    prefill_ended_s = dispatched_s + steps[1]
    until_s = prefill_ended_s + steps[2]
    timeline = Timeline(
        received_s=50.0,
        dispatched_s=dispatched_s if reached > 0 else None,
        prefill_started=prefill and reached > 0,
        prefill_ended_s=prefill_ended_s if prefill and reached > 1 else None,
        held_s=held_s,
        service_s=service_s,
        transfer_s=transfer_s,
    )

    parts = ttft_parts(timeline, until_s=until_s)

    assert sum(parts.values()) == pytest.approx(until_s - 50.0)
    assert min(parts.values()) >= -1e-9


def test_a_wait_for_any_decode_pod_is_decode_admission() -> None:
    parts = ttft_parts(replace(GOOD, held_s=0.1), until_s=100.5)

    assert parts[Cause.ROUTER_QUEUE] == 0
    assert parts[Cause.DECODE_ADMISSION] == pytest.approx(0.17)


def test_tpot_is_taken_between_tokens_and_the_bound_grows_with_the_prompt() -> None:
    result = judge(
        GOOD, Ending.ANSWERED, ended_s=102, slo=SLO, prompt_tokens=2000, output_tokens=10
    )

    assert result.tpot_s == pytest.approx(0.1)
    assert result.ttft_bound_s == pytest.approx(2.0)


def test_one_output_token_meets_tpot() -> None:
    result = judge(GOOD, Ending.ANSWERED, ended_s=102, slo=SLO, prompt_tokens=10, output_tokens=1)

    assert result.tpot_s is None
    assert result.outcome is Outcome.GOOD


@pytest.mark.parametrize(
    ("first_s", "last_s", "outcome"),
    [
        (101.0, 101.5, Outcome.GOOD),
        (101.2, 101.5, Outcome.LATE_TTFT),
        (101.0, 110.0, Outcome.LATE_TPOT),
        (101.2, 110.0, Outcome.LATE_BOTH),
    ],
)
def test_outcomes_follow_the_bounds(first_s: float, last_s: float, outcome: Outcome) -> None:
    timeline = replace(GOOD, first_token_s=first_s, last_token_s=last_s)

    assert verdict(timeline).outcome is outcome


@pytest.mark.parametrize(
    ("timeline", "ended_s", "outcome"),
    [
        (Timeline(received_s=100.0), 100.9, Outcome.GONE),
        (Timeline(received_s=100.0), 101.2, Outcome.LATE_TTFT),
        (GOOD, 105.0, Outcome.GONE),
        (replace(GOOD, first_token_s=101.2), 105.0, Outcome.LATE_TTFT),
    ],
    ids=["before the bound", "after the bound", "after a punctual token", "after a late token"],
)
def test_a_client_that_leaves_counts_by_its_ttft(
    timeline: Timeline, ended_s: float, outcome: Outcome
) -> None:
    result = verdict(timeline, Ending.GONE, ended_s=ended_s)

    assert result.outcome is outcome
    assert (blame(result, Ending.GONE, usual={}) is None) == (outcome is Outcome.GONE)


def test_a_late_token_is_blamed_on_the_part_that_grew_not_on_the_part_that_is_large() -> None:
    timeline = replace(
        GOOD, dispatched_s=100.0, prefill_ended_s=100.7, service_s=0.7, first_token_s=101.2
    )
    usual = {Cause.PREFILL: 0.7, Cause.DECODE_ADMISSION: 0.02}

    assert blame(verdict(timeline), Ending.ANSWERED, usual=usual) is Cause.DECODE_ADMISSION
    assert blame(verdict(timeline), Ending.ANSWERED, usual={}) is Cause.PREFILL


def test_after_a_bound_was_tightened_the_largest_part_is_to_blame() -> None:
    timeline = replace(
        GOOD, dispatched_s=100.0, prefill_ended_s=104.0, service_s=4.0, first_token_s=104.2
    )
    usual = {Cause.PREFILL: 4.0, Cause.DECODE_ADMISSION: 0.15}

    assert blame(verdict(timeline), Ending.ANSWERED, usual=usual) is Cause.PREFILL


@pytest.mark.parametrize(
    ("held_s", "cause"),
    [
        pytest.param(0.0, Cause.ROUTER_QUEUE, id="prefill pods"),
        pytest.param(0.1, Cause.DECODE_ADMISSION, id="decode pods"),
    ],
)
def test_what_was_refused_early_is_blamed_on_what_it_waited_for(
    held_s: float, cause: Cause
) -> None:
    refused = verdict(
        Timeline(received_s=100.0, held_s=held_s), Ending.TOO_LATE, ended_s=100.0 + 0.1
    )
    usual = {Cause.ROUTER_QUEUE: 0.3, Cause.PREFILL: 0.4, Cause.TRANSFER: 0.01}

    assert blame(refused, Ending.TOO_LATE, usual=usual) is cause


@pytest.mark.parametrize("waited_s", [0.0, 0.001, 0.2])
@given(usual=st.dictionaries(st.sampled_from(list(Cause)[:5]), st.floats(0, 10)))
def test_what_was_shed_in_the_queue_is_blamed_on_no_part_that_it_never_reached(
    waited_s: float, usual: dict[Cause, float]
) -> None:
    shed = verdict(Timeline(received_s=100.0), Ending.SHED, ended_s=100.0 + waited_s)

    assert blame(shed, Ending.SHED, usual=usual) is Cause.ROUTER_QUEUE


def test_late_tokens_are_blamed_on_the_decode_step() -> None:
    late_tpot = verdict(replace(GOOD, last_token_s=110.0))
    mostly_tpot = verdict(replace(GOOD, first_token_s=101.1, last_token_s=110.0))
    mostly_ttft = verdict(replace(GOOD, first_token_s=105.0, last_token_s=106.0))

    assert blame(late_tpot, Ending.ANSWERED, usual={}) is Cause.DECODE_STEP
    assert blame(mostly_tpot, Ending.ANSWERED, usual={}) is Cause.DECODE_STEP
    assert blame(mostly_ttft, Ending.ANSWERED, usual={}) is Cause.DECODE_ADMISSION


def test_what_broke_is_blamed_on_an_error_and_what_waited_in_vain_on_its_wait() -> None:
    failed = verdict(GOOD, Ending.FAILED)
    shed = verdict(Timeline(received_s=100.0), Ending.SHED)
    refused = verdict(GOOD, Ending.REFUSED)
    silent = verdict(replace(GOOD, first_token_s=None), Ending.TIMED_OUT)

    assert blame(failed, Ending.FAILED, usual={}) is Cause.ERROR
    assert blame(shed, Ending.SHED, usual={}) is Cause.ROUTER_QUEUE
    assert blame(refused, Ending.REFUSED, usual={}) is None
    assert blame(silent, Ending.TIMED_OUT, usual={}) is Cause.DECODE_ADMISSION
