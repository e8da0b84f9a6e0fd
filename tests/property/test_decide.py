"""A decision's prohibitions, on random histories."""

from dataclasses import replace
from math import isfinite

from hypothesis import given
from hypothesis import strategies as st

from tandem_operator.core.decide import decide
from tandem_operator.core.decision import Reason
from tandem_operator.core.memory import Memory
from tandem_operator.core.objective.promise import Promise
from tandem_operator.core.role import Role
from tandem_operator.core.spec import PoolSpec
from tandem_operator.core.tuning.tuning import TUNING
from tandem_operator.workloads.stored_memory import memory_from_json, memory_to_json
from tests.property.observations import History, gpus_held_and_grown, histories, promises, run


def within_bounds(spec: PoolSpec, role: Role, count: int) -> bool:
    bounds = spec.roles[role]
    return bounds.min_replicas <= count <= bounds.max_replicas


@given(histories())
def test_counts_stay_inside_their_bounds_and_neither_role_reaches_zero(history: History) -> None:
    for _, _, decision, _ in run(history):
        for role, plan in decision.roles.items():
            short_of_budget = plan.reason is Reason.GPU_BUDGET or "gpuBudget" in plan.limits_hit
            assert plan.to <= history.spec.roles[role].max_replicas
            assert plan.to >= 1 or short_of_budget
            assert plan.to >= history.spec.roles[role].min_replicas or short_of_budget


@given(histories())
def test_growth_never_exceeds_the_budget_with_all_pods_that_exist(history: History) -> None:
    spec = history.spec
    if spec.gpu_budget is None:
        return
    for _, seen, decision, _ in run(history):
        held, grown = gpus_held_and_grown(spec, seen, decision)
        assert grown == 0 or held + grown <= spec.gpu_budget


@given(histories(), promises())
def test_no_insurance_leaves_the_bounds_or_the_budget(history: History, promise: Promise) -> None:
    spec = history.spec
    for _, seen, decision, _ in run(history, Memory(promise=promise)):
        for role, plan in decision.roles.items():
            short_of_budget = plan.reason is Reason.GPU_BUDGET or "gpuBudget" in plan.limits_hit
            assert plan.to <= spec.roles[role].max_replicas
            assert plan.to >= spec.roles[role].min_replicas or short_of_budget
        if spec.gpu_budget is not None:
            held, grown = gpus_held_and_grown(spec, seen, decision)
            assert grown == 0 or held + grown <= spec.gpu_budget


@given(histories())
def test_nothing_shrinks_on_missing_or_stale_data_unless_the_user_ordered_it(
    history: History,
) -> None:
    for now_s, seen, decision, _ in run(history):
        fresh = [r for r in seen.routers if now_s - r.sampled_s <= 20.0 and not r.ended]
        if len(fresh) >= max(1, seen.router_pods) and not seen.turned_away:
            continue
        for role, plan in decision.roles.items():
            if plan.to < plan.current:
                ordered = plan.current > history.spec.roles[role].max_replicas
                assert ordered or "gpuBudget" in plan.limits_hit


@given(histories())
def test_without_any_fresh_router_nothing_grows_either(history: History) -> None:
    for now_s, seen, decision, _ in run(history):
        if any(now_s - r.sampled_s <= 20.0 and not r.ended for r in seen.routers):
            continue
        for role, plan in decision.roles.items():
            if plan.to > plan.current:
                assert plan.current < max(1, history.spec.roles[role].min_replicas)


@given(histories())
def test_no_role_grows_behind_a_gate_unless_the_user_ordered_it(history: History) -> None:
    for now_s, seen, decision, _ in run(history):
        for role, plan in decision.roles.items():
            held = any(
                pod.gates and now_s - pod.created_s > TUNING.observe.stuck_settle_s
                for pod in seen.pods
                if pod.role is role
            )
            assert not held or plan.to <= max(plan.current, history.spec.roles[role].min_replicas)


@given(histories())
def test_steps_keep_to_the_largest_step(history: History) -> None:
    step = history.spec.max_step
    if step is None:
        return
    for _, _, decision, _ in run(history):
        for plan in decision.roles.values():
            # What the user orders by bounds or budget is not taken in steps.
            inside = within_bounds(history.spec, plan.role, plan.current)
            if inside and "gpuBudget" not in plan.limits_hit:
                assert abs(plan.to - plan.current) <= step


@given(histories())
def test_every_role_gets_a_reason_and_a_sentence_and_finite_numbers(history: History) -> None:
    for _, _, decision, _ in run(history):
        assert set(decision.roles) == set(Role)
        for role, plan in decision.roles.items():
            assert role.value in plan.sentence
            assert plan.reason in Reason
        assert all(isfinite(value) for value in decision.inputs.values())


@given(histories(), st.integers(0, 5))
def test_a_restart_in_the_middle_changes_no_decision(history: History, restart: int) -> None:
    steady, restarted = Memory(), Memory()
    for index, (now_s, seen) in enumerate(history.ticks):
        if index == restart:
            restarted = memory_from_json(memory_to_json(restarted))
        first, steady = decide(history.spec, seen, steady, now_s)
        second, restarted = decide(history.spec, seen, restarted, now_s)
        assert first == second
    assert steady == restarted


@given(histories())
def test_equal_inputs_give_equal_decisions_in_any_order(history: History) -> None:
    memory = Memory()
    for now_s, seen in history.ticks:
        mirrored = replace(
            seen, pods=seen.pods[::-1], replicas=dict(reversed(list(seen.replicas.items())))
        )
        first = decide(history.spec, seen, memory, now_s)
        again = decide(history.spec, seen, memory, now_s)
        other = decide(history.spec, mirrored, memory, now_s)
        assert first == again
        assert {r: p.to for r, p in first[0].roles.items()} == {
            r: p.to for r, p in other[0].roles.items()
        }
        memory = first[1]
