"""The way from a wanted count to a set one: confirmation, windows, steps, credit and urgency."""

from collections.abc import Mapping
from dataclasses import replace

from tandem_operator.core.decision import Reason
from tandem_operator.core.guard.allowed import Allowed
from tandem_operator.core.guard.growth_confirmation import Past, remember
from tandem_operator.core.guard.guard import Scene, guard
from tandem_operator.core.observation import PodPhase, PodState
from tandem_operator.core.observe.role_pods import RolePods, Starts, fleet
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.replica_counts import Choice
from tandem_operator.core.sizing.role_targets import Plan
from tandem_operator.core.spec import PoolSpec
from tests.unit.core.scene import NOW_S, make_spec, observe, pods


class Script:
    """Ticks of the guard alone, every 5 s, with a given target for each role."""

    def __init__(self, spec: PoolSpec, *, prefill: int = 2, decode: int = 2) -> None:
        self.spec = spec
        self.asked = {Role.PREFILL: prefill, Role.DECODE: decode}
        self.extra: tuple[PodState, ...] = ()
        self.past: dict[Role, Past] = {}
        self.now_s = NOW_S
        self.scene: Mapping[str, object] = {}
        self.limits: Mapping[Role, tuple[str, ...]] = {}

    def fleets(self) -> dict[Role, RolePods]:
        seen = observe(
            prefill=self.asked[Role.PREFILL],
            decode=self.asked[Role.DECODE],
            extra_pods=self.extra,
        )
        return {role: fleet(seen, role, Starts(), self.now_s) for role in Role}

    def tick(
        self, prefill: int, decode: int = 2, *, sure: int | None = None, carry_out: bool = True
    ) -> dict[Role, Allowed]:
        self.now_s += 5.0
        fleets = self.fleets()
        target = {Role.PREFILL: prefill, Role.DECODE: decode}
        choice = Choice(wanted=target, target=target, limits_hit=self.limits)
        less = {**target, Role.PREFILL: prefill if sure is None else sure}
        plan = Plan(choice=choice, keep=choice, sure=replace(choice, target=less))
        self.past = remember(self.past, plan, spec=self.spec, now_s=self.now_s)
        scene = replace(
            Scene(fleets=fleets, may_shrink=True, enough_history=True, idle=False),
            **self.scene,  # type: ignore[arg-type]
        )
        allowed = guard(self.spec, choice, self.past, scene, self.now_s)
        if carry_out:
            self.asked = {role: plan.to for role, plan in allowed.items()}
        return allowed

    def until_shrunk(self, prefill: int, limit_s: float = 400.0) -> float:
        """Return the seconds until prefill shrinks."""
        start_s, before = self.now_s, self.asked[Role.PREFILL]
        while self.now_s - start_s < limit_s:
            if self.tick(prefill)[Role.PREFILL].to < before:
                return self.now_s - start_s
        return float("inf")


def test_growth_waits_for_a_second_tick_and_not_longer() -> None:
    script = Script(make_spec())

    assert script.tick(4)[Role.PREFILL].to == 2
    assert script.tick(4)[Role.PREFILL].to == 4


def test_a_glitch_of_one_tick_changes_nothing() -> None:
    script = Script(make_spec())

    assert [script.tick(n)[Role.PREFILL].to for n in (2, 6, 2, 2)] == [2, 2, 2, 2]


def test_growth_goes_to_what_both_ticks_agree_on() -> None:
    script = Script(make_spec())
    script.tick(3)

    assert script.tick(6)[Role.PREFILL].to == 3


def test_growth_that_a_little_less_load_would_not_call_for_waits_for_four_ticks() -> None:
    script = Script(make_spec())

    assert [script.tick(3, sure=2)[Role.PREFILL].to for _ in range(4)] == [2, 2, 2, 3]


def test_what_a_little_less_load_calls_for_too_does_not_wait_for_the_rest() -> None:
    script = Script(make_spec())

    assert [script.tick(5, sure=4)[Role.PREFILL].to for _ in range(4)] == [2, 4, 4, 5]


def test_a_small_need_that_swings_is_met_as_far_as_it_lasts() -> None:
    script = Script(make_spec())

    assert [script.tick(n, sure=2)[Role.PREFILL].to for n in (3, 4, 3, 4)] == [2, 2, 2, 3]


def test_a_small_need_that_goes_away_within_a_quarter_of_a_minute_buys_nothing() -> None:
    script = Script(make_spec())

    for prefill in (3, 3, 3, 2, 3, 3, 3, 2):
        assert script.tick(prefill, sure=2)[Role.PREFILL].to == 2


def test_an_urgent_role_grows_at_once() -> None:
    script = Script(make_spec())
    script.scene = {"urgent": frozenset({Role.PREFILL})}

    assert script.tick(4)[Role.PREFILL].to == 4


def test_shrinking_takes_a_whole_window() -> None:
    script = Script(make_spec(stabilization_s=60.0), prefill=4)
    script.tick(4)

    assert 60.0 <= script.until_shrunk(1) <= 70.0
    assert script.asked[Role.PREFILL] == 1


def test_shrinking_goes_no_further_than_the_window_s_largest_need() -> None:
    script = Script(make_spec(stabilization_s=60.0), prefill=5)
    for _ in range(6):
        script.tick(3)
    script.until_shrunk(1)

    assert script.asked[Role.PREFILL] == 3


def test_one_tick_that_needs_the_replica_starts_the_window_anew() -> None:
    script = Script(make_spec(stabilization_s=60.0), prefill=3)
    for _ in range(10):
        script.tick(2)
    script.tick(3)

    assert script.until_shrunk(2) >= 60.0


def test_while_pods_start_only_as_many_as_start_are_given_back() -> None:
    script = Script(make_spec(stabilization_s=10.0), prefill=3)
    script.extra = pods(Role.PREFILL, 1, phase=PodPhase.STARTING, created_s=NOW_S)

    script.until_shrunk(1)

    assert script.asked[Role.PREFILL] == 2


def test_stuck_pods_stop_growth_of_their_role_only_and_not_its_shrink() -> None:
    script = Script(make_spec(stabilization_s=10.0))
    script.extra = pods(
        Role.PREFILL, 1, phase=PodPhase.STARTING, problem="ImagePullBackOff", revision="new"
    )

    script.tick(4, 4)
    blocked = script.tick(4, 4)

    assert blocked[Role.PREFILL].to == 2
    assert blocked[Role.PREFILL].reason is Reason.CAPACITY_BLOCKED
    assert blocked[Role.DECODE].to == 4
    assert script.until_shrunk(1, limit_s=60.0) < 60.0


def test_targets_that_change_at_every_tick_are_remembered_over_the_longest_window() -> None:
    """Large fleets want another count at nearly every tick: 720 of them in an hour."""
    script = Script(make_spec(high=100, stabilization_s=3600.0), prefill=60)
    most = {at: 50 if at % 300 == 0 else 40 + at % 2 for at in range(1000)}

    shrunk_at = next(at for at in range(1000) if script.tick(most[at])[Role.PREFILL].to < 60)

    assert 720 <= shrunk_at <= 722
    assert script.asked[Role.PREFILL] == 50


def test_growth_waits_until_the_shrink_that_pays_for_it_is_seen() -> None:
    script = Script(make_spec(gpu_budget=4, stabilization_s=300.0))
    script.tick(1, 3)

    while script.asked[Role.PREFILL] == 2:
        assert script.tick(1, 3)[Role.DECODE].to == 2
    # The replica that leaves still holds its GPU.
    script.extra = pods(Role.PREFILL, 1, phase=PodPhase.TERMINATING)
    waiting = script.tick(1, 3)
    assert waiting[Role.DECODE].to == 2
    assert waiting[Role.DECODE].reason is Reason.GPU_BUDGET

    script.extra = ()
    assert script.tick(1, 3)[Role.DECODE].to == 3


def test_a_trade_does_not_wait_for_the_long_window() -> None:
    script = Script(make_spec(gpu_budget=4, stabilization_s=300.0))
    start_s = script.now_s

    while script.asked[Role.PREFILL] == 2:
        script.tick(1, 3)

    assert script.now_s - start_s <= 60.0


def test_a_need_that_does_not_last_takes_no_replica_from_the_other_role() -> None:
    script = Script(make_spec(gpu_budget=4, stabilization_s=300.0))
    for _ in range(8):
        script.tick(2, 1)

    for _ in range(3):
        assert script.tick(3, 1, sure=2)[Role.DECODE].to == 2
    assert script.tick(3, 1, sure=2)[Role.DECODE].to == 1


def test_growth_that_is_not_agreed_on_is_not_called_limited() -> None:
    script = Script(make_spec())
    script.limits = {Role.PREFILL: ("gpuBudget",)}
    script.tick(5, sure=3)

    assert script.tick(5, sure=3)[Role.PREFILL] == Allowed(2, 3, None)
    script.tick(5, sure=3)
    assert script.tick(5, sure=3)[Role.PREFILL] == Allowed(3, 5, None, ("gpuBudget",))


def test_growth_keeps_to_the_largest_step() -> None:
    script = Script(make_spec(max_step=1))
    script.tick(5)

    grown = script.tick(5)[Role.PREFILL]

    assert grown.to == 3
    assert "maxStep" in grown.limits_hit


def test_a_time_without_ticks_does_not_count_as_agreement() -> None:
    script = Script(make_spec(stabilization_s=60.0), prefill=3)
    script.tick(2)
    script.now_s += 600.0

    assert script.tick(2)[Role.PREFILL].to == 3
    assert script.until_shrunk(2) >= 55.0
