from dataclasses import replace

import pytest

from tandem_operator.core.decision import Reason
from tandem_operator.core.explain.sentences import (
    LatencyOutlook,
    Words,
    cause,
    percent,
    seconds,
    sentence,
)
from tandem_operator.core.guard.allowed import Allowed
from tandem_operator.core.role import Role

LOAD = "4.2 requests/s of 1500 prompt tokens over the next 95 s"


def words(role: Role, outlook: LatencyOutlook | None, **more: object) -> Words:
    settings: dict[str, object] = {
        "role": role,
        "outlook": outlook,
        "stabilization_s": 300.0,
        "budget": "gpuBudget 4",
        "fresh_message": "Tandem has fresh metrics from 0 of 1 routers",
        "stuck": None,
        "minimum": 1,
        "maximum": 4,
        "idle": False,
        "learning": False,
    }
    return Words(**(settings | more))  # type: ignore[arg-type]


def outlook(**more: object) -> LatencyOutlook:
    settings: dict[str, object] = {
        "quantity": "TTFT p95",
        "bound_s": 1.5,
        "observed_s": None,
        "before_s": 1.9,
        "after_s": 0.8,
        "late_share": 0.2,
        "load": LOAD,
    }
    return LatencyOutlook(**(settings | more))  # type: ignore[arg-type]


def test_growth_names_the_predicted_ttft_the_bound_the_load_and_the_gain() -> None:
    said = words(Role.PREFILL, outlook())

    assert cause(said) is Reason.PREDICTED_TTFT
    assert sentence(said, Allowed(1, 3, None), Reason.PREDICTED_TTFT) == (
        f"prefill 1 -> 3: predicted TTFT p95 is 1.9 s (bound 1.5 s) at {LOAD};"
        " 2 more replicas bring TTFT p95 to 0.80 s"
    )


def test_growth_that_waits_for_a_second_look_is_not_called_enough() -> None:
    said = sentence(
        words(Role.PREFILL, outlook(), pending=True), Allowed(1, 1, None), Reason.STEADY
    )

    assert said == (
        "prefill stays at 1: more replicas may be needed; scaling up within 15 s if that holds"
    )


def test_growth_names_the_observed_tpot() -> None:
    said = words(
        Role.DECODE,
        outlook(
            quantity="TPOT", bound_s=0.025, observed_s=0.0312, after_s=0.019, load="2 requests/s"
        ),
    )

    assert cause(said) is Reason.OBSERVED_TPOT
    assert sentence(said, Allowed(1, 2, None), Reason.OBSERVED_TPOT) == (
        "decode 1 -> 2: TPOT was 31.2 ms (bound 25 ms) in the last 2 minutes;"
        " the forecast is 2 requests/s; 1 more replica brings TPOT to 19 ms"
    )


def test_a_full_batch_of_fast_steps_is_late_for_ttft_until_tpot_is_seen_to_be_late() -> None:
    full = outlook(quantity="TPOT", batch_limit="max_num_seqs (64 streams)")

    assert cause(words(Role.DECODE, full)) is Reason.PREDICTED_TTFT
    assert cause(words(Role.DECODE, replace(full, observed_s=0.03))) is Reason.OBSERVED_TPOT
    assert cause(words(Role.DECODE, outlook(quantity="TPOT"))) is Reason.PREDICTED_TPOT


def test_pods_that_do_not_start_are_told_of_with_what_is_known_of_the_cause() -> None:
    def said(stuck: str | None) -> str:
        held = words(Role.PREFILL, outlook(), stuck=stuck)
        return sentence(held, Allowed(2, 2, None), Reason.CAPACITY_BLOCKED)

    assert said(None) == "prefill stays at 2: the cluster does not start its pods"
    assert said("pod p: 0/3 nodes are free") == "prefill stays at 2: pod p: 0/3 nodes are free"


def test_a_queue_that_grows_without_limit_is_over_a_minute() -> None:
    said = words(Role.PREFILL, outlook(before_s=None))

    assert "predicted TTFT p95 is over 60 s (bound 1.5 s)" in sentence(
        said, Allowed(1, 2, None), Reason.PREDICTED_TTFT
    )


def test_kv_capacity_is_named_where_it_limits_the_batch() -> None:
    said = words(
        Role.DECODE,
        outlook(quantity="TPOT", batch_limit="KV capacity (5 streams)", kv_bound=True),
    )

    assert cause(said) is Reason.KV_CAPACITY
    assert "KV capacity (5 streams)" in sentence(said, Allowed(1, 2, None), Reason.KV_CAPACITY)


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("reason", [r for r in Reason if r is not Reason.INITIAL])
def test_every_refusal_is_a_sentence_about_its_role(role: Role, reason: Reason) -> None:
    said = sentence(words(role, outlook()), Allowed(2, 2, reason), reason)

    assert said.startswith(f"{role.value} stays at 2: ")
    assert len(said) > len(f"{role.value} stays at 2: ") + 8


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0042, "4.2 ms"), (0.0312, "31.2 ms"), (0.25, "0.25 s"), (1.9, "1.9 s"), (120.4, "120 s")],
)
def test_durations_read_well(value: float, text: str) -> None:
    assert seconds(value) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0 %"),
        (2.8e-17, "less than 0.1 %"),
        (0.0123, "1.2 %"),
        (0.096, "9.6 %"),
        (0.0999, "10 %"),
        (0.28, "28 %"),
        (1.0, "100 %"),
    ],
)
def test_shares_read_well(share: float, text: str) -> None:
    assert percent(share) == text


def test_a_count_that_cannot_keep_its_bound_is_not_said_to_keep_it() -> None:
    said = words(
        Role.PREFILL, outlook(), out_of_reach="no number of replicas can keep TTFT within it"
    )

    kept = sentence(said, Allowed(2, 2, Reason.STEADY), Reason.STEADY)
    fewer = sentence(said, Allowed(2, 1, Reason.SPARE_CAPACITY), Reason.SPARE_CAPACITY)

    assert kept == "prefill stays at 2: no number of replicas can keep TTFT within it"
    assert fewer == (
        "prefill 2 -> 1: 1 replica fewer would have served every request for the last 300 s"
    )
