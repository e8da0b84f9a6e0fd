"""The play of a history on a fleet: the requests that would be late, and the replicas held."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from tandem_operator.core.objective.what_if import (
    BucketPart,
    Late,
    Option,
    bursts_beyond,
    following,
    options,
    parts_of,
    rate_of,
    unmoved,
)
from tandem_operator.core.observe.demand_history import BUCKET_S, UNKNOWN, DemandHistory
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.role_targets import Bursts
from tests.unit.core.bursts import (
    HIGH_RPS,
    LOW_RPS,
    SERVICE_S,
    TOKENS,
    late_share,
    lived,
    lulls_and_bursts,
)

GRID = 0.05


def late(role: Role = Role.PREFILL) -> Late:
    return Late(lambda rate, n: late_share(role, rate, n), busy=SERVICE_S[role])


def in_parts(
    history: DemandHistory, *, prompt_tokens: float = TOKENS, output_tokens: float = 100.0
) -> tuple[BucketPart, ...]:
    weights = [1.0] * len(history)
    mean_tokens = {Role.PREFILL: prompt_tokens, Role.DECODE: output_tokens}
    return parts_of(history, weights, mean_tokens=mean_tokens, dispersion=1.0)


def wants(*counts: int) -> DemandHistory:
    return replace(lived([(1.0, len(counts) * BUCKET_S)]), wants=dict.fromkeys(Role, counts))


def rate_seen(part: BucketPart, role: Role = Role.PREFILL) -> float:
    return rate_of(part.steps[role])


def test_an_even_bucket_is_one_part_of_its_rate() -> None:
    (part,) = in_parts(lived([(4.0, BUCKET_S)]))

    assert part.requests == 80
    assert rate_seen(part) == pytest.approx(4.0, rel=GRID)


def test_a_spike_beyond_chance_is_a_part_of_its_own() -> None:
    history = replace(lived([(4.0, BUCKET_S)]), peaks=(70,))

    spike, rest = in_parts(history)

    assert rate_seen(spike) == pytest.approx(14.0, rel=GRID)
    assert rate_seen(rest) == pytest.approx(10.0 / 15.0, rel=GRID)
    assert spike.requests + rest.requests == 80


def test_a_spike_that_may_be_chance_is_none() -> None:
    assert len(in_parts(replace(lived([(4.0, BUCKET_S)]), peaks=(28,)))) == 1


@pytest.mark.parametrize("column", ["requests", "prefill wants"])
def test_a_bucket_of_which_something_is_unknown_is_not_played(column: str) -> None:
    history = lived([(4.0, 3 * BUCKET_S)])
    if column == "requests":
        history = replace(history, requests=(80, UNKNOWN, 80))
    else:
        history = replace(history, wants={**history.wants, Role.PREFILL: (2, UNKNOWN, 2)})

    assert [part.bucket for part in in_parts(history)] == [0, 2]


def test_longer_prompts_than_today_s_are_felt_as_more_of_them_by_prefill_alone() -> None:
    (part,) = in_parts(lived([(4.0, BUCKET_S)]), prompt_tokens=TOKENS / 2)

    assert rate_seen(part) == pytest.approx(8.0, rel=GRID)
    assert rate_seen(part, Role.DECODE) == pytest.approx(4.0, rel=GRID)


def test_longer_answers_than_today_s_are_felt_as_more_of_them_by_decode_alone() -> None:
    history = replace(lived([(4.0, BUCKET_S)]), output_tokens=(100,))

    (part,) = in_parts(history, output_tokens=50.0)

    assert rate_seen(part) == pytest.approx(4.0, rel=GRID)
    assert rate_seen(part, Role.DECODE) == pytest.approx(8.0, rel=GRID)


@pytest.mark.parametrize("output_tokens", [(), (UNKNOWN,), (70,), (35,)])
def test_answers_of_unknown_or_hardly_other_length_count_as_those_of_today(
    output_tokens: tuple[int, ...],
) -> None:
    history = replace(lived([(4.0, BUCKET_S)]), output_tokens=output_tokens)

    (part,) = in_parts(history, output_tokens=50.0)

    assert rate_seen(part, Role.DECODE) == pytest.approx(4.0, rel=GRID)


def test_prompts_of_unknown_length_count_as_those_of_today() -> None:
    history = replace(lived([(4.0, BUCKET_S)]), prompt_tokens=(UNKNOWN,))

    (part,) = in_parts(history, prompt_tokens=TOKENS / 2)

    assert rate_seen(part) == pytest.approx(4.0, rel=GRID)


def test_a_fleet_is_ready_one_start_later_than_it_was_asked_for() -> None:
    fleet = following(wants(1, 1, 4, 4, 4, 4), Role.PREFILL, hold_s=0.0, lead_s=40.0)

    assert list(fleet.asked) == [1, 1, 4, 4, 4, 4]
    assert list(fleet.ready) == [1, 1, 1, 1, 4, 4]


def test_a_start_longer_than_a_burst_comes_too_late_for_it() -> None:
    fleet = following(wants(1, 4, 4, 1, 1, 1), Role.PREFILL, hold_s=0.0, lead_s=60.0)

    assert max(fleet.ready) == 1


def test_what_was_asked_for_is_kept_as_long_as_it_is_held() -> None:
    fleet = following(wants(1, 4, 1, 1, 1, 1), Role.PREFILL, hold_s=40.0, lead_s=0.0)

    assert list(fleet.asked) == [1, 4, 4, 4, 1, 1]


def test_a_fleet_that_never_moves_asks_for_nothing_beyond_its_floor() -> None:
    fleet = unmoved(wants(1, 4, 1))

    assert list(fleet.asked) == list(fleet.ready) == [0, 0, 0]


def test_a_fleet_follows_the_forecast_up_to_the_most() -> None:
    fleet = following(wants(1, 9, 1), Role.PREFILL, hold_s=0.0, lead_s=0.0, most=4)

    assert list(fleet.asked) == [1, 4, 1]


def played(history: DemandHistory, *, hold_s: float | None = 0.0) -> list[Option]:
    return options(
        in_parts(history),
        [1.0] * len(history),
        role=Role.PREFILL,
        late=late(),
        fleet=unmoved(history)
        if hold_s is None
        else following(history, Role.PREFILL, hold_s=hold_s, lead_s=60.0),
        floors=range(1, 13),
    )


def test_a_higher_floor_makes_fewer_late_and_holds_more() -> None:
    found = played(lived(lulls_and_bursts(3)))

    assert [each.floor for each in found] == list(range(1, len(found) + 1))
    assert all(more.late <= less.late for less, more in pairwise(found))
    assert all(more.replica_s > less.replica_s for less, more in pairwise(found))


def test_no_floor_is_tried_beyond_the_first_without_late_requests() -> None:
    found = played(lived([(LOW_RPS, 600.0)]))

    assert found[-1].floor < 12
    assert found[-1].late == pytest.approx(0.0, abs=0.2)


def test_a_fleet_that_never_moves_holds_its_floor_all_the_time() -> None:
    history = lived(lulls_and_bursts(2))

    (first, *_) = played(history, hold_s=None)

    assert first.replica_s == len(history) * BUCKET_S


def counting(asked: list[float]) -> Callable[[float, int], float]:
    def share(rate_rps: float, _replicas: int) -> float:
        asked.append(rate_rps)
        return 0.25

    return share


def test_a_late_share_is_asked_for_once() -> None:
    asked: list[float] = []
    shares = Late(counting(asked), busy=0.2)

    assert [shares.share(28, 1) for _ in range(3)] == [0.25] * 3
    assert len(asked) == 1


def test_far_beyond_full_load_the_excess_is_late_unasked() -> None:
    shares = Late(counting([]), busy=1.0)

    assert shares.share(0, 0) == 1.0
    assert shares.share(round(20 * 1.386), 1) == pytest.approx(0.75, rel=GRID)


def beyond(history: DemandHistory, replicas: int) -> Bursts | None:
    return bursts_beyond(
        history,
        in_parts(history),
        role=Role.PREFILL,
        late=late(),
        replicas=replicas,
        mean_tokens=TOKENS,
    )


def test_bursts_are_told_by_their_rate_their_number_and_what_they_would_miss() -> None:
    bursts = beyond(lived([*lulls_and_bursts(3), (LOW_RPS, 60.0)]), 2)

    assert bursts is not None
    assert bursts.times == 3
    assert bursts.rate_rps == pytest.approx(HIGH_RPS, rel=GRID)
    assert bursts.span_s == 60.0 + 3 * 60.0 + 2 * 240.0
    # Half of twenty a second, before two replicas of five a second.
    assert bursts.late_share == pytest.approx(0.5, abs=0.05)


def test_no_bursts_are_told_where_there_was_enough_of_it() -> None:
    assert beyond(lived(lulls_and_bursts(3)), 12) is None


def test_bursts_of_longer_prompts_are_told_by_their_rate_and_their_prompts() -> None:
    even = lived([(LOW_RPS, 600.0)])
    tokens = (*even.prompt_tokens[:-3], *[12 * tokens for tokens in even.prompt_tokens[-3:]])

    bursts = beyond(replace(even, prompt_tokens=tokens), 2)

    assert bursts is not None
    assert bursts.rate_rps == pytest.approx(LOW_RPS, rel=GRID)
    assert bursts.tokens == pytest.approx(12 * TOKENS, rel=2 * GRID)


def test_bursts_of_prompts_like_those_of_today_are_told_by_their_rate_alone() -> None:
    bursts = beyond(lived(lulls_and_bursts(3)), 2)

    assert bursts is not None
    assert bursts.tokens is None
