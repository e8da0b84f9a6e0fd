import pytest

from tandem_operator.core.learn.correction import (
    Correction,
    burning,
    correct,
    see_ready,
)
from tandem_operator.core.observe.arrivals import Outcomes, outcomes
from tandem_operator.core.role import Role
from tandem_operator.core.tuning.tuning import TUNING
from tests.unit.core.scene import NOW_S, ended, report


def outcome(finished: int, blame: dict[str, int]) -> Outcomes:
    row = ended(NOW_S - 5, finished, good=finished - sum(blame.values()), blame=blame)
    return outcomes([report(finished=[row])], window_s=60)


def settled(expected: dict[Role, float] | None = None) -> Correction:
    ready = see_ready(Correction(), dict.fromkeys(Role, 1), NOW_S - 300)
    return Correction(ready=ready.ready, expected_late=expected or dict.fromkeys(Role, 0.0))


def after(correction: Correction, seen: Outcomes, *, ticks: int = 60) -> Correction:
    for _ in range(ticks):
        correction = correct(
            correction, minute=seen, longer=seen, attainment=0.95, step_s=5.0, now_s=NOW_S
        )
    return correction


def test_only_the_blamed_role_is_corrected() -> None:
    moved = after(settled(), outcome(100, {"decode_admission": 40}))

    assert moved.of(Role.DECODE) > 1.2
    assert moved.of(Role.PREFILL) <= 1.0


def test_transfer_and_errors_buy_nothing() -> None:
    moved = after(settled(), outcome(100, {"transfer": 40, "error": 20}))

    assert moved.of(Role.PREFILL) <= 1.0
    assert moved.of(Role.DECODE) <= 1.0


def test_factors_stay_in_their_range() -> None:
    worst = after(settled(), outcome(100, {"prefill": 100}), ticks=2000)
    best = after(settled(dict.fromkeys(Role, 1.0)), outcome(100, {}), ticks=2000)

    assert worst.of(Role.PREFILL) == TUNING.learn.most_slowdown_ratio
    assert best.of(Role.PREFILL) == TUNING.learn.least_slowdown_ratio


def test_a_slowdown_rests_to_nothing_over_a_long_step_and_never_turns_into_its_opposite() -> None:
    slowed = after(settled(), outcome(100, {"decode_admission": 40}))
    nothing = outcome(0, {})

    def rested(step_s: float) -> float:
        found = correct(
            slowed, minute=nothing, longer=nothing, attainment=0.95, step_s=step_s, now_s=NOW_S
        )
        return found.of(Role.DECODE)

    assert 1.0 < rested(0.5 * TUNING.learn.slowdown_rest_s) < slowed.of(Role.DECODE)
    assert rested(10.0 * TUNING.learn.slowdown_rest_s) == pytest.approx(1.0)


def test_violations_that_the_model_expected_are_no_model_error() -> None:
    expected = settled({Role.PREFILL: 0.4, Role.DECODE: 0.0})

    assert after(expected, outcome(100, {"router_queue": 40})).of(Role.PREFILL) == 1.0


@pytest.mark.parametrize(
    ("counts", "age_s", "lost"),
    [((2, 1), 5.0, True), ((2, 1), 120.0, False), ((1, 2), 5.0, False), ((2, 0), 5.0, False)],
)
def test_a_prefill_pod_that_left_took_its_caches_along(
    counts: tuple[int, int], age_s: float, lost: bool
) -> None:
    found = Correction()
    for at_s, count in zip((NOW_S - 300.0, NOW_S - age_s), counts, strict=True):
        found = see_ready(found, {Role.PREFILL: count, Role.DECODE: 1}, at_s)

    assert found.lost_caches(NOW_S) is lost


def test_a_decode_pod_that_left_took_no_prefix_cache_along() -> None:
    found = see_ready(Correction(), {Role.PREFILL: 2, Role.DECODE: 2}, NOW_S - 300.0)

    assert not see_ready(found, {Role.PREFILL: 2, Role.DECODE: 1}, NOW_S).lost_caches(NOW_S)


def test_a_fleet_that_just_changed_is_not_judged() -> None:
    fresh = see_ready(settled(), {Role.PREFILL: 2, Role.DECODE: 1}, NOW_S)

    assert after(fresh, outcome(100, {"prefill": 60})).of(Role.PREFILL) == 1.0


def test_a_clock_that_is_set_back_delays_a_judgement_no_longer_than_a_change_does() -> None:
    ready = {Role.PREFILL: 1, Role.DECODE: 1}
    ahead = see_ready(Correction(), ready, NOW_S + 3600.0)

    set_back = see_ready(ahead, ready, NOW_S)

    assert not set_back.settled(Role.PREFILL, NOW_S + 10.0)
    assert set_back.settled(Role.PREFILL, NOW_S + 100.0)


def test_too_few_requests_say_nothing() -> None:
    assert after(settled(), outcome(10, {"prefill": 10})).of(Role.PREFILL) == 1.0


def test_missing_the_objective_raises_the_price_of_lateness() -> None:
    assert after(settled(), outcome(100, {"prefill": 30})).price > TUNING.learn.first_price_ratio
    assert after(settled(), outcome(100, {})).price < TUNING.learn.first_price_ratio


def test_a_budget_burns_when_both_windows_burn() -> None:
    burnt, calm = outcome(100, {"decode_step": 50}), outcome(100, {"decode_step": 2})

    assert burning(burnt, burnt, Role.DECODE, 0.95)
    assert not burning(burnt, calm, Role.DECODE, 0.95)
    assert not burning(burnt, burnt, Role.PREFILL, 0.95)
