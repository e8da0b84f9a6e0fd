"""The sample is the same on every machine, and shows each level of each factor often enough."""

from collections import Counter
from itertools import combinations

import pytest

from benchmarks.promise.cases import LEARNING_S, demand, manifest, trace_of
from benchmarks.promise.design import (
    ARRAY,
    COLD_STARTS_S,
    KINDS,
    REPLICAS,
    TARGETS,
    mean_rps,
    sample,
)
from benchmarks.promise.quick import QUICK
from benchmarks.promise.scores import SURPRISE
from benchmarks.promise.traffic import Family
from tandem_operator.api import parse_pool
from tandem_operator.cli.input.case import spec_of

MADE = sample(1, None)


def test_any_two_factors_meet_at_each_pair_of_levels() -> None:
    for one, other in combinations(range(4), 2):
        assert len({(row[one], row[other]) for row in ARRAY}) == 9


def test_the_same_number_gives_the_same_sample_and_another_gives_other_requests() -> None:
    assert sample(1, None) == MADE

    other = sample(2, None)

    assert [case.name for case in other] == [case.name for case in MADE]
    seeds = {case.traffic.seed for case in MADE}
    assert len(seeds & {case.traffic.seed for case in other}) < 3


def test_each_kind_has_nine_cases_with_each_level_three_times() -> None:
    for kind in KINDS:
        cases = [case for case in MADE if case.name.rpartition("-")[0] == kind]

        assert Counter(case.target for case in cases) == dict.fromkeys(TARGETS, 3)
        assert Counter(case.cold_start_s for case in cases) == dict.fromkeys(COLD_STARTS_S, 3)
        assert sorted(Counter(case.replicas for case in cases).values()) == [3, 3, 3]


def test_an_event_comes_once_the_scored_part_began_and_leaves_time_after_it() -> None:
    for case in MADE:
        assert (case.event_s is not None) == (case.family in SURPRISE)
        if case.event_s is not None:
            assert LEARNING_S < case.event_s < case.traffic.span_s - 300.0


def test_a_wave_or_a_day_is_judged_from_its_second_period() -> None:
    for case in MADE:
        if case.family in (Family.SINE, Family.DAY):
            assert case.scored_s >= (case.traffic.period_s or 0.0)
            assert case.traffic.span_s >= case.scored_s + (case.traffic.period_s or 0.0)


@pytest.mark.parametrize("kind", ["poisson", "step", "shift-prompts", "agents"])
def test_the_mean_load_is_what_the_case_says(kind: str) -> None:
    case = next(c for c in MADE if c.name.startswith(f"{kind}-") and c.replicas == REPLICAS[0])
    spec = spec_of(parse_pool(manifest(case.slo, case.target), strict=True))

    need = demand(trace_of(case.traffic, None), spec)

    assert sum(need.values()) == pytest.approx(REPLICAS[0], rel=0.15)


def test_no_made_hour_is_too_long_to_simulate_in_a_minute() -> None:
    for case in MADE:
        if case.family is not Family.AGENTS:
            assert mean_rps(case.traffic) * case.traffic.span_s < 200_000


def test_quick_cases_have_names_and_requests_of_their_own() -> None:
    assert len({case.name for case in QUICK}) == len({case.identity for case in QUICK}) == 16
