"""The effect of one look on a role whose only pod has to leave its node."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from tandem_operator.core.decision import Reason
from tandem_operator.core.guard.allowed import Allowed
from tandem_operator.core.guard.node_drain import Relief, relieve
from tandem_operator.core.observation import PodPhase, PodState
from tandem_operator.core.observe.role_pods import Starts, fleet
from tandem_operator.core.role import Role
from tandem_operator.core.spec import Mode, PoolSpec
from tests.unit.core.scene import NOW_S, make_spec, observe, pods

LEAVING = pods(Role.PREFILL, 1, leaving=True)
STAYING = tuple(replace(pod, name="other") for pod in pods(Role.PREFILL, 1))


def relieved(
    *prefill: PodState,
    asked: int = 1,
    to: int = 1,
    decode_to: int = 1,
    spec: PoolSpec | None = None,
    under_way: Sequence[Role] = (),
    wanted: Mapping[Role, int] | None = None,
) -> Relief:
    """Return one look at a pool with one decode pod and these prefill pods."""
    seen = observe(
        prefill=0,
        decode=1,
        extra_pods=prefill,
        replicas={Role.PREFILL: asked, Role.DECODE: 1},
    )
    return relieve(
        spec or make_spec(),
        {role: fleet(seen, role, Starts(), NOW_S) for role in Role},
        {
            Role.PREFILL: Allowed(asked, to, Reason.STEADY),
            Role.DECODE: Allowed(1, decode_to, Reason.STEADY),
        },
        under_way=under_way,
        wanted=wanted,
    )


def prefill(relief: Relief) -> tuple[int, Reason | None]:
    allowed = relief.allowed[Role.PREFILL]
    return allowed.to, allowed.reason


def test_a_second_pod_is_asked_for_and_remembered() -> None:
    relief = relieved(*LEAVING)

    assert prefill(relief) == (2, Reason.NODE_DRAIN)
    assert relief.roles == (Role.PREFILL,)
    assert relief.allowed[Role.DECODE].to == 1


def test_a_pod_that_stays_or_has_another_beside_it_needs_none() -> None:
    assert prefill(relieved(*STAYING)) == (1, Reason.STEADY)
    assert prefill(relieved(*LEAVING, *STAYING, asked=2, to=2)) == (2, Reason.STEADY)


@pytest.mark.parametrize(
    "spec",
    [
        make_spec(mode=Mode.RECOMMEND),
        make_spec(mode=Mode.PAUSED),
        make_spec(managed={Role.PREFILL: False}),
    ],
)
def test_no_count_is_changed_that_is_not_for_tandem_to_set(spec: PoolSpec) -> None:
    relief = relieved(*LEAVING, spec=spec)

    assert prefill(relief) == (1, Reason.STEADY)
    assert relief.roles == ()


@pytest.mark.parametrize(
    ("budget", "decode_to", "fits"), [(3, 1, True), (2, 1, False), (3, 2, False)]
)
def test_relief_stays_inside_the_budget_that_other_growth_leaves(
    budget: int, decode_to: int, *, fits: bool
) -> None:
    relief = relieved(*LEAVING, spec=make_spec(gpu_budget=budget), decode_to=decode_to)

    assert prefill(relief) == (2 if fits else 1, Reason.NODE_DRAIN)
    assert relief.roles == ((Role.PREFILL,) if fits else ())
    assert relief.blocked == (() if fits else (Role.PREFILL,))
    assert relief.allowed[Role.PREFILL].limits_hit == (() if fits else ("gpuBudget",))


def test_relief_that_is_under_way_waits_until_the_other_serves() -> None:
    relief = relieved(*LEAVING, asked=2, to=1, under_way=[Role.PREFILL])

    assert prefill(relief) == (2, Reason.NODE_DRAIN)
    assert relief.roles == (Role.PREFILL,)


def test_once_the_other_serves_the_one_on_the_node_goes() -> None:
    relief = relieved(*LEAVING, *STAYING, asked=2, to=2, under_way=[Role.PREFILL])

    assert prefill(relief) == (1, Reason.NODE_DRAIN)
    assert relief.roles == ()


def test_relief_is_over_once_the_load_wants_as_many() -> None:
    relief = relieved(
        *LEAVING, *STAYING, asked=2, to=2, under_way=[Role.PREFILL], wanted={Role.PREFILL: 2}
    )

    assert prefill(relief) == (2, Reason.STEADY)
    assert relief.roles == ()


def test_growth_for_the_load_goes_beyond_the_relief() -> None:
    relief = relieved(*LEAVING, asked=2, to=3, under_way=[Role.PREFILL])

    assert prefill(relief) == (3, Reason.STEADY)
    assert relief.roles == (Role.PREFILL,)


def test_a_role_does_not_shrink_to_the_pod_that_has_to_leave() -> None:
    coming = pods(Role.PREFILL, 1, phase=PodPhase.STARTING)

    assert prefill(relieved(*LEAVING, *coming, asked=2, to=1)) == (2, Reason.NODE_DRAIN)
