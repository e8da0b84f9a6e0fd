"""The routers' knowledge of a decode replica, and requests that are late while they still wait."""

from dataclasses import replace

import pytest

from tandem_operator.core.learn.correction import Correction, SeenReady, correct
from tandem_operator.core.learn.engine_models import EngineModels
from tandem_operator.core.learn.output_lengths import Outputs
from tandem_operator.core.memory import Memory
from tandem_operator.core.observation import RouterReport, StartUp
from tandem_operator.core.observe.arrivals import outcomes
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.decode_speed import TimedDecodePace, pace_to_tell
from tandem_operator.core.sizing.demand import Backlog, Situation, assess, backlog_of
from tandem_operator.workloads.stored_memory import memory_from_json, memory_to_json
from tests.unit.core.scene import NOW_S, ended, make_spec, report
from tests.unit.core.test_sizing import arrivals, poisson


def situated(*, step_s: float = 0.07, slowdown: float = 1.0, held_tokens: float = 0.0) -> Situation:
    """Return an engine of 10 ms for one stream that measured `step_s` for 64."""
    start_up = StartUp(prefill=((32.0, 0.02), (1024.0, 0.2)), steps=((1.0, 0.01), (64.0, step_s)))
    models = (
        EngineModels().with_start_up(Role.PREFILL, start_up).with_start_up(Role.DECODE, start_up)
    )
    found = assess(
        make_spec(high=64),
        arrivals(poisson(30.0), tokens=100.0),
        models=replace(models, kv_capacity_tokens=100_000.0),
        outputs=Outputs(50.0, 0.3),
        correction=Correction(slowdown={Role.DECODE: slowdown}),
        overhead_s=0.0,
        backlog=Backlog({Role.PREFILL: 0.0, Role.DECODE: held_tokens}, clear_s=60.0),
    )
    assert found is not None
    return found


def told_after(
    told: TimedDecodePace | None,
    situation: Situation | None,
    *,
    seconds: float = 60.0,
    max_num_seqs: int = 64,
) -> TimedDecodePace | None:
    return pace_to_tell(told, situation, max_num_seqs=max_num_seqs, now_s=NOW_S + seconds)


def first_told() -> TimedDecodePace:
    told = told_after(None, situated(), seconds=0.0)
    assert told is not None
    return told


def test_nothing_is_told_before_anything_is_known() -> None:
    assert told_after(None, None) is None


def test_what_was_told_stays_while_nothing_new_is_known() -> None:
    told = TimedDecodePace((0.01, 0.001, 0.0), 5000.0, 64)

    assert told_after(told, None) is told


def test_the_steps_are_told_as_they_were_timed() -> None:
    pace = first_told()

    assert pace.step_s(1.0, 125.0) == pytest.approx(0.01, rel=0.1)
    assert pace.step_s(64.0, 64.0 * 125.0) == pytest.approx(0.07, rel=0.1)
    assert (pace.kv_capacity_tokens, pace.max_num_seqs) == (100_000.0, 64)
    assert (pace.output_tokens, pace.told_s) == (50.0, NOW_S)


def test_a_clock_that_is_set_back_keeps_no_news_from_the_routers() -> None:
    later = replace(first_told(), told_s=NOW_S + 3600.0)

    assert told_after(later, situated(step_s=0.14)) == told_after(None, situated(step_s=0.14))


def test_violations_correct_sizing_and_not_what_is_told() -> None:
    assert told_after(None, situated(slowdown=0.8)) == told_after(None, situated(slowdown=1.4))


@pytest.mark.parametrize(
    ("step_s", "seconds", "same"),
    [
        (0.0705, 600.0, True),
        (0.0695, 600.0, True),
        (0.075, 11.0, False),
        (0.075, 9.0, True),
        (0.06, 11.0, False),
        (0.06, 9.0, True),
    ],
)
def test_small_news_are_no_news_and_others_are_not_told_at_every_tick(
    step_s: float, seconds: float, same: bool
) -> None:
    told = first_told()

    now = told_after(told, situated(step_s=step_s), seconds=seconds)

    assert (now is told) is same


def test_another_batch_limit_is_told_at_once_and_another_cache_soon() -> None:
    told = first_told()

    limited = told_after(told, situated(), seconds=5.0, max_num_seqs=32)
    assert limited is not None
    assert limited.max_num_seqs == 32
    for capacity in (200_000.0, 50_000.0, None):
        other = told_after(replace(told, kv_capacity_tokens=capacity), situated(), seconds=11.0)
        assert other is not None
        assert other.kv_capacity_tokens == 100_000.0


@pytest.mark.parametrize(
    ("output_tokens", "seconds", "same"),
    [(60.0, 600.0, True), (70.0, 11.0, False), (70.0, 9.0, True), (None, 11.0, False)],
)
def test_other_output_lengths_are_told_when_they_are_far_off(
    output_tokens: float | None, seconds: float, same: bool
) -> None:
    told = replace(first_told(), output_tokens=output_tokens)

    assert (told_after(told, situated(), seconds=seconds) is told) is same


def test_a_memory_brings_back_what_was_told() -> None:
    memory = Memory(pace=TimedDecodePace((0.01, 0.001, 0.0), None, 64))

    assert memory_from_json(memory_to_json(memory)) == memory


def waiting(**what: int) -> RouterReport:
    return replace(report(), finished=(ended(NOW_S - 10, 40),), **what)


def test_prompts_that_decode_holds_back_are_decodes_backlog() -> None:
    queued = backlog_of([waiting(queued_prompt_tokens=900)], clear_s=60.0)
    held = backlog_of([waiting(queued_prompt_tokens=900, held_prompt_tokens=900)], clear_s=60.0)

    assert queued.tokens == {Role.PREFILL: 900, Role.DECODE: 0}
    assert held.tokens == {Role.PREFILL: 0, Role.DECODE: 900}
    assert held.replicas(Role.DECODE, busy_s_per_token=0.01) == pytest.approx(0.15)


def test_decode_grows_to_serve_requests_that_wait_for_it_within_the_look_ahead() -> None:
    # Six hundred prompts of a hundred tokens, over a minute: ten requests/s more.
    demands = situated(held_tokens=60_000.0).demands

    assert demands[Role.PREFILL].backlog == 0.0
    assert demands[Role.DECODE].backlog == pytest.approx(10.0 * demands[Role.DECODE].busy, rel=0.01)


def test_a_waiting_request_that_is_late_counts_as_a_violation_already() -> None:
    late = waiting(overdue_requests=10, held_overdue_requests=7)

    found = outcomes([late], window_s=60)

    assert (found.finished, found.late_ttft, found.good) == (50, 10, 40)
    assert found.attainment == pytest.approx(0.8)
    assert found.blame == {"decode_admission": 7, "router_queue": 3}
    # They have made nothing yet: outputs are learned from requests that ended.
    assert found.answered == 40


def test_what_was_overdue_for_a_minute_is_not_counted_again_when_it_ends() -> None:
    row = ended(
        NOW_S - 10,
        40,
        good=30,
        late_ttft=10,
        blame={"router_queue": 10},
        echoes={"router_queue": 8},
    )
    reports = [replace(report(), finished=(row,))]

    whole, fresh = (outcomes(reports, window_s=60, echoes=echoes) for echoes in (True, False))

    assert (whole.finished, whole.late_ttft, whole.blame) == (40, 10, {"router_queue": 10})
    assert (fresh.finished, fresh.late_ttft, fresh.blame) == (32, 2, {"router_queue": 2})


def test_a_request_that_is_late_because_of_one_role_does_not_judge_the_other() -> None:
    prefill_is_short = outcomes([waiting(overdue_requests=20)], window_s=60)
    ready = {role: SeenReady(ready=1, since_s=NOW_S - 300.0) for role in Role}
    before = Correction(expected_late=dict.fromkeys(Role, 0.3), ready=ready)

    def after(minute: object) -> float:
        return correct(
            before,
            minute=minute,  # type: ignore[arg-type]
            longer=minute,  # type: ignore[arg-type]
            attainment=0.95,
            step_s=5.0,
            now_s=NOW_S,
        ).of(Role.DECODE)

    assert after(prefill_is_short) == 1.0
    # With no late request at all, decode is faster than assumed.
    assert after(outcomes([waiting()], window_s=60)) < 1.0
