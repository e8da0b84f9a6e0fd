"""A pool that may go to zero, on random histories: both roles or neither, no request forgotten."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tandem_operator.core.decide import decide
from tandem_operator.core.decision import Reason
from tandem_operator.core.memory import Memory
from tandem_operator.core.observation import (
    ArrivalSecond,
    EngineSample,
    Observation,
    PodPhase,
    PodState,
    RouterReport,
)
from tandem_operator.core.observe.freshness import usable
from tandem_operator.core.role import Role
from tandem_operator.core.spec import PoolSpec
from tandem_operator.workloads.stored_memory import memory_from_json, memory_to_json
from tests.property.observations import START_S, History, histories, run, specs

sleepers = st.sampled_from([60.0, 120.0, 3600.0])


@st.composite
def sleeping_histories(draw: st.DrawFn) -> History:
    history = draw(histories())
    ticks = tuple((now_s, _often_at_rest(draw, seen)) for now_s, seen in history.ticks)
    return History(replace(history.spec, sleep_after_s=draw(sleepers)), ticks)


def _often_at_rest(draw: st.DrawFn, seen: Observation) -> Observation:
    """Return the same, of a pool in which mostly nothing happens, and which often is at zero."""
    if draw(st.integers(0, 3)):
        quiet = {"arrivals": (), "queued_requests": 0, "prefill_requests": 0, "decode_requests": 0}
        routers = tuple(replace(each, **quiet) for each in seen.routers)
        seen = replace(seen, routers=routers)
    if draw(st.booleans()):
        seen = replace(seen, replicas=dict.fromkeys(Role, 0))
    return seen


@given(sleeping_histories())
def test_both_roles_go_to_zero_and_come_back_together(history: History) -> None:
    for _, seen, decision, _ in run(history):
        asleep = [plan.to for plan in decision.roles.values() if plan.reason is Reason.ASLEEP]
        assert asleep in ([], [0, 0])
        if history.spec.may_sleep and seen.replicas == dict.fromkeys(Role, 0):
            counts = {plan.to > 0 for plan in decision.roles.values()}
            assert len(counts) == 1


@given(sleeping_histories())
def test_a_pool_does_not_go_to_sleep_while_a_request_is_seen_to_wait(history: History) -> None:
    for now_s, seen, decision, memory in run(history):
        if not memory.rest.asleep:
            continue
        fresh = usable(seen, now_s).routers
        inside = sum(r.queued_requests + r.prefill_requests + r.decode_requests for r in fresh)
        assert not inside
        if any(plan.current for plan in decision.roles.values()):
            assert fresh
            assert len([r for r in fresh if not r.ended]) >= max(1, seen.router_pods)


@given(sleeping_histories())
def test_a_role_with_another_owner_keeps_the_pool_awake(history: History) -> None:
    if history.spec.may_sleep:
        return
    for _, _, decision, memory in run(history):
        assert not memory.rest.asleep
        assert {plan.reason for plan in decision.roles.values()}.isdisjoint(
            {Reason.ASLEEP, Reason.WAKING}
        )


@given(sleeping_histories())
def test_a_restart_between_any_two_ticks_changes_no_decision(history: History) -> None:
    memory = through = Memory()
    for now_s, seen in history.ticks:
        one, memory = decide(history.spec, seen, memory, now_s)
        other, through = decide(history.spec, seen, through, now_s)
        assert one == other
        through = memory_from_json(memory_to_json(through))


@dataclass(frozen=True)
class Visits:
    """The requests that come to a pool: seconds from its beginning, and the stay of each."""

    spec: PoolSpec
    at_s: tuple[float, ...]
    start_s: float


@st.composite
def visits(draw: st.DrawFn) -> Visits:
    spec = draw(specs())
    roles = {role: replace(each, managed=True) for role, each in spec.roles.items()}
    spec = replace(spec, roles=roles, sleep_after_s=draw(st.sampled_from([60.0, 90.0])))
    gaps = st.sampled_from([1.0, 30.0, 100.0, 400.0])
    at_s, times = 0.0, []
    for gap_s in draw(st.lists(gaps, max_size=4)):
        at_s += gap_s
        times.append(at_s)
    return Visits(spec, tuple(times), draw(st.sampled_from([10.0, 60.0])))


@settings(max_examples=8)
@given(visits())
def test_every_request_is_served_within_a_start_and_a_rest_costs_nothing(story: Visits) -> None:
    """A pool whose pods start in time: played tick by tick, with what it decides carried out."""
    pool = _Played(story)
    while pool.now_s < (story.at_s[-1] if story.at_s else 0.0) + 300.0:
        pool.tick()
        assert pool.longest_wait_s <= story.start_s + 2 * pool.TICK_S
    if pool.auto:
        assert pool.asked == dict.fromkeys(Role, 0)


class _Played:
    TICK_S = 5.0

    def __init__(self, story: Visits) -> None:
        self.story, self.spec = story, story.spec
        self.auto = story.spec.mode.value == "Auto"
        self.now_s = 0.0
        self.memory = Memory()
        self.asked = {role: each.min_replicas for role, each in self.spec.roles.items()}
        self.born: Mapping[Role, float] = dict.fromkeys(Role, -1000.0)
        self.waiting: list[float] = []
        self.longest_wait_s = 0.0

    def tick(self) -> None:
        before_s, self.now_s = self.now_s, self.now_s + self.TICK_S
        self.waiting += [at for at in self.story.at_s if before_s < at <= self.now_s]
        serves = all(self._ready(role) for role in Role)
        if serves:
            self.longest_wait_s = max(
                [self.longest_wait_s, *(self.now_s - at for at in self.waiting)]
            )
            self.waiting = []
        decision, self.memory = decide(self.spec, self._seen(), self.memory, START_S + self.now_s)
        if not self.auto:
            return
        for role, plan in decision.roles.items():
            if plan.to and not self.asked[role]:
                self.born = {**self.born, role: self.now_s}
            self.asked[role] = plan.to

    def _ready(self, role: Role) -> bool:
        return self.asked[role] > 0 and self.now_s - self.born[role] >= self.story.start_s

    def _seen(self) -> Observation:
        pods = tuple(
            PodState(
                f"{role}-{self.born[role]:.0f}-{index}",
                role,
                "r1",
                PodPhase.READY if self._ready(role) else PodPhase.STARTING,
                START_S + self.born[role],
                START_S + self.born[role] + self.story.start_s if self._ready(role) else None,
            )
            for role in Role
            for index in range(self.asked[role])
        )
        seconds = sorted({int(at) for at in self.story.at_s if at <= self.now_s})
        report = RouterReport(
            router="r1",
            sampled_s=START_S + self.now_s,
            started_s=START_S - 1200.0,
            bucket_edges_tokens=(128,),
            arrivals=tuple(ArrivalSecond(int(START_S) + s, (1, 0), (50, 0), 0) for s in seconds),
            finished=(),
            queued_requests=len(self.waiting),
            queued_prompt_tokens=50 * len(self.waiting),
            prefill_requests=0,
            decode_requests=0,
            legs=(),
        )
        ready = [pod for pod in pods if pod.phase is PodPhase.READY]
        engines = (EngineSample(pod.name, pod.role, report.sampled_s, 0.0, 0.0) for pod in ready)
        return Observation(
            replicas=dict(self.asked),
            pods=pods,
            engines=tuple(engines),
            routers=(report,),
            router_pods=1,
        )
