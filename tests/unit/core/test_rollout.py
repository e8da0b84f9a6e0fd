"""The next steps of a rollout, and its share of the budget."""

from dataclasses import replace

import pytest

from tandem_operator.core.guard.rollout import RolloutStep, Turnover, next_steps, with_reserve
from tandem_operator.core.role import Role
from tandem_operator.core.spec import Mode
from tests.unit.core.scene import make_spec

DONE = Turnover(asked=2, pods=2)
BEFORE = Turnover(asked=2, pods=2, old=2)


def steps(prefill, decode, *, budget, surge_gpus=None, gpus=1):
    fleets = {Role.PREFILL: prefill, Role.DECODE: decode}
    spec = make_spec(gpu_budget=budget)
    roles = {role: replace(spec.roles[role], gpus_per_replica=gpus) for role in Role}
    spec = with_reserve(replace(spec, roles=roles), fleets)
    found = next_steps(spec, fleets, surge_gpus=surge_gpus)
    return found[Role.PREFILL], found[Role.DECODE]


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        (None, (RolloutStep.SURGE, RolloutStep.SURGE)),
        (8, (RolloutStep.SURGE, RolloutStep.SURGE)),
        (7, (RolloutStep.SURGE, RolloutStep.WAIT)),
        (6, (RolloutStep.SURGE, RolloutStep.WAIT)),
        (5, (RolloutStep.IN_PLACE, RolloutStep.WAIT)),
        (4, (RolloutStep.WAIT, RolloutStep.WAIT)),
    ],
)
@pytest.mark.parametrize("gpus", [1, 2, 4])
def test_roles_go_on_together_only_as_far_as_the_budget_has_room(budget, expected, gpus):
    budget_gpus = None if budget is None else budget * gpus

    assert steps(BEFORE, BEFORE, budget=budget_gpus, gpus=gpus) == expected


def test_the_role_that_is_further_behind_goes_next():
    ahead = Turnover(asked=2, pods=2, old=1)

    assert steps(ahead, BEFORE, budget=5) == (RolloutStep.WAIT, RolloutStep.IN_PLACE)


def test_no_other_role_serves_with_fewer_pods_while_a_new_pod_starts():
    under_way = Turnover(asked=2, pods=2, old=1, starting=1)

    assert steps(under_way, BEFORE, budget=5) == (RolloutStep.SURGE, RolloutStep.WAIT)


def test_a_pod_that_terminates_holds_what_the_next_one_needs():
    leaving = Turnover(asked=2, pods=2, old=1, leaving=1)

    assert steps(leaving, DONE, budget=5) == (RolloutStep.WAIT, RolloutStep.IN_PLACE)


def test_an_only_pod_without_room_for_another_is_gone_before_the_next_is_made():
    only = Turnover(asked=1, pods=1, old=1)
    gone = Turnover(asked=1, leaving=1)

    assert steps(only, only, budget=2) == (RolloutStep.STOP_FIRST, RolloutStep.WAIT)
    assert steps(gone, only, budget=2) == (RolloutStep.STOP_FIRST, RolloutStep.WAIT)
    assert steps(only, only, budget=3) == (RolloutStep.SURGE, RolloutStep.WAIT)


def test_a_quota_refuses_by_itself_and_nothing_waits_for_it():
    assert steps(BEFORE, BEFORE, budget=None, surge_gpus=4) == (
        RolloutStep.IN_PLACE,
        RolloutStep.WAIT,
    )


@pytest.mark.parametrize("gpus", [1, 2, 4])
def test_what_one_role_s_new_pods_take_of_a_quota_is_gone_for_the_other(gpus):
    assert steps(BEFORE, BEFORE, budget=None, surge_gpus=7 * gpus, gpus=gpus) == (
        RolloutStep.SURGE,
        RolloutStep.WAIT,
    )


def test_a_rollout_takes_a_replica_of_a_fleet_at_its_budget():
    spec = with_reserve(make_spec(gpu_budget=4), {Role.PREFILL: DONE, Role.DECODE: BEFORE})

    assert (spec.gpu_budget, spec.rollout_gpus) == (3, 1)
    assert spec.budget_words == "gpuBudget 4 (1 for the rollout)"


def test_a_rollout_reserves_the_gpus_of_a_whole_replica():
    spec = make_spec(gpu_budget=12)
    wide = {role: replace(spec.roles[role], gpus_per_replica=2) for role in Role}

    def reserved(budget):
        made = replace(spec, roles=wide, gpu_budget=budget)
        kept = with_reserve(made, {Role.PREFILL: DONE, Role.DECODE: BEFORE})
        return kept.gpu_budget, kept.rollout_gpus

    # Four replicas are asked for: eight GPUs. Up to two replicas more are reserved where they fit.
    assert [reserved(budget) for budget in (8, 10, 12, 16)] == [(6, 2), (8, 2), (8, 4), (12, 4)]


def test_a_minimum_that_fills_the_budget_gives_way_by_one_for_a_rollout():
    spec = make_spec(gpu_budget=4)
    tight = {role: replace(spec.roles[role], min_replicas=2) for role in Role}

    kept = with_reserve(replace(spec, roles=tight), {Role.PREFILL: DONE, Role.DECODE: BEFORE})

    assert kept.rollout_gpus == 1
    assert kept.roles[Role.PREFILL].min_replicas == 2
    assert kept.roles[Role.DECODE].min_replicas == 1


@pytest.mark.parametrize("mode", [Mode.RECOMMEND, Mode.PAUSED])
def test_a_count_that_is_not_set_by_tandem_is_rolled_out_in_place(mode):
    spec = replace(make_spec(gpu_budget=4), mode=mode)
    fleets = {Role.PREFILL: DONE, Role.DECODE: BEFORE}

    reserved = with_reserve(spec, fleets)

    assert reserved == spec
    assert next_steps(reserved, fleets, surge_gpus=None)[Role.DECODE] is RolloutStep.IN_PLACE


def test_nothing_is_reserved_without_a_rollout():
    spec = make_spec(gpu_budget=4)

    assert with_reserve(spec, {Role.PREFILL: DONE, Role.DECODE: DONE}) == spec
