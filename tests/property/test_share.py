"""Pools that tick in any order, with pods that go in their own time, never exceed the quota."""

from dataclasses import dataclass, field, replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tandem_operator.core.decide import decide
from tandem_operator.core.guard.allowed import Allowed
from tandem_operator.core.guard.gpu_budget import within_budget
from tandem_operator.core.memory import Memory
from tandem_operator.core.observe.role_pods import RolePods
from tandem_operator.core.quota.allocate import Claim
from tandem_operator.core.quota.demand_curve import Curve, CurvePoint
from tandem_operator.core.quota.share import Quota, take_share
from tandem_operator.core.role import Role
from tandem_operator.core.spec import PoolSpec, RoleSpec
from tandem_operator.workloads.stored_memory import memory_from_json, memory_to_json
from tests.property.observations import History, gpus_held_and_grown, histories
from tests.unit.core.scene import make_spec

HARD_GPUS = 20
NAMES = ("a", "b", "c")


@dataclass
class Live:
    """A pool's Deployments and pods between ticks."""

    spec: PoolSpec
    want: dict[Role, int]
    worth_rps: float = 1.0
    asked: dict[Role, int | None] = field(default_factory=lambda: dict.fromkeys(Role))
    alive: dict[Role, int] = field(default_factory=lambda: dict.fromkeys(Role, 0))
    leaving: dict[Role, int] = field(default_factory=lambda: dict.fromkeys(Role, 0))

    def fleets(self) -> dict[Role, RolePods]:
        return {
            role: RolePods(
                role=role,
                asked=self.asked[role],
                ready=(),
                starting=(),
                stuck=(),
                terminating=self.leaving[role],
                held=self._held(role),
            )
            for role in Role
        }

    def _held(self, role: Role) -> int:
        return max(self.asked[role] or 0, self.alive[role]) + self.leaving[role]

    @property
    def gpus(self) -> int:
        return sum(self._held(role) * self.spec.roles[role].gpus_per_replica for role in Role)

    def curve(self) -> Curve:
        """Return one step for each further pair, and then for each further replica."""
        counts, points = dict.fromkeys(Role, 1), []
        for index in range(sum(self.want.values()) - 1):
            gpus = sum(n * self.spec.roles[role].gpus_per_replica for role, n in counts.items())
            points.append(CurvePoint(gpus, dict(counts), self.worth_rps * (index + 1)))
            role = min(Role, key=lambda r: (counts[r] >= self.want[r], counts[r], r))
            counts[role] += 1
        return tuple(points)

    def controller_acts(self) -> None:
        """Give the Deployments the pods that they ask for."""
        for role in Role:
            asked = self.asked[role] or 0
            self.leaving[role] += max(0, self.alive[role] - asked)
            self.alive[role] = asked

    def pod_goes(self) -> None:
        for role in Role:
            self.leaving[role] = max(0, self.leaving[role] - 1)


@dataclass
class Namespace:
    pools: dict[str, Live]
    claims: dict[str, Claim] = field(default_factory=dict)

    def tick(self, name: str) -> None:
        pool, fleets = self.pools[name], self.pools[name].fleets()
        others = tuple(claim for other, claim in self.claims.items() if other != name)
        quota = Quota(name, HARD_GPUS, HARD_GPUS, others)
        share = take_share(pool.spec, quota, fleets, curve=pool.curve(), keep_all=False)
        assert share.claim is not None
        self.claims[name] = share.claim
        spec = share.limit(pool.spec)
        wanted = {
            role: Allowed(pool.asked[role] or 0, max(pool.want[role], pool.asked[role] or 0), None)
            for role in Role
        }
        allowed = within_budget(spec, fleets, wanted, target=pool.want)
        pool.asked = {role: plan.to for role, plan in allowed.items()}

    @property
    def gpus(self) -> int:
        return sum(pool.gpus for pool in self.pools.values())


pairs = st.fixed_dictionaries({role: st.integers(1, 6) for role in Role})
names = st.sampled_from(NAMES)
events = st.one_of(
    st.tuples(st.just("tick"), names, st.none()),
    st.tuples(st.just("tick"), names, st.none()),
    st.tuples(st.just("controller"), names, st.none()),
    st.tuples(st.just("gone"), names, st.none()),
    st.tuples(st.just("want"), names, st.tuples(pairs, st.floats(0.1, 20.0))),
)


@st.composite
def namespaces(draw: st.DrawFn) -> Namespace:
    pools = {}
    for name in NAMES:
        spec = replace(make_spec(high=8), priority=draw(st.sampled_from([0, 0, 10])))
        gpus = {role: draw(st.sampled_from([1, 1, 2, 4])) for role in Role}
        roles = {role: RoleSpec(1, 8, gpus[role], True) for role in Role}
        pools[name] = Live(replace(spec, roles=roles), draw(pairs), draw(st.floats(0.1, 20.0)))
    return Namespace(pools)


@settings(max_examples=150, deadline=None)
@given(namespaces(), st.lists(events, min_size=5, max_size=60))
def test_what_pools_ask_for_and_still_hold_is_never_more_than_the_quota(
    namespace: Namespace, history: list[tuple[str, str, tuple[dict[Role, int], float] | None]]
) -> None:
    minimums = sum(
        sum(role.gpus_per_replica for role in pool.spec.roles.values())
        for pool in namespace.pools.values()
    )
    for act, name, wish in history:
        pool = namespace.pools[name]
        if act == "tick":
            namespace.tick(name)
            assert all(pool.asked.values()) or not any(pool.asked.values())
        elif act == "controller":
            pool.controller_acts()
        elif act == "gone":
            pool.pod_goes()
        elif wish is not None:
            pool.want, pool.worth_rps = wish
        if minimums <= HARD_GPUS:
            assert namespace.gpus <= HARD_GPUS


@settings(max_examples=100, deadline=None)
@given(namespaces())
def test_once_pods_have_gone_every_pool_has_its_share_and_keeps_it(namespace: Namespace) -> None:
    for _ in range(12):
        for name, pool in namespace.pools.items():
            namespace.tick(name)
            pool.controller_acts()
            pool.leaving = dict.fromkeys(Role, 0)

    settled = {name: dict(pool.asked) for name, pool in namespace.pools.items()}
    for name in (*NAMES, *reversed(NAMES)):
        namespace.tick(name)

    assert {name: dict(pool.asked) for name, pool in namespace.pools.items()} == settled
    assert all(
        all(pool.asked.values())
        for pool in namespace.pools.values()
        if sum(
            sum(r.gpus_per_replica for r in p.spec.roles.values()) for p in namespace.pools.values()
        )
        <= HARD_GPUS
    )


@st.composite
def quotas(draw: st.DrawFn) -> Quota:
    """Draw a quota for a pool: neighbours of any size, and any number of GPUs."""
    claims = []
    for name in NAMES[: draw(st.integers(0, 3))]:
        least, asked, leaving = (draw(st.integers(0, 6)) for _ in range(3))
        points = [CurvePoint(least + i, dict.fromkeys(Role, 1), float(i)) for i in range(1, 4)]
        claims.append(
            Claim(
                pool=name,
                priority=draw(st.sampled_from([-5, 0, 10])),
                least=least,
                curve=draw(st.sampled_from([(), tuple(points)])),
                asked=asked,
                held=asked + leaving,
                granted=draw(st.integers(0, 8)),
            )
        )
    gpus = draw(st.integers(0, 40))
    return Quota("pool", gpus, gpus, tuple(claims))


whole_ticks = settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@whole_ticks
@given(histories(), st.lists(quotas(), min_size=6, max_size=6))
def test_a_tick_grows_into_free_gpus_only_and_a_restart_changes_nothing(
    history: History, seen_quotas: list[Quota]
) -> None:
    steady, restarted, spec = Memory(), Memory(), history.spec
    for (now_s, seen), quota in zip(history.ticks, seen_quotas, strict=False):
        decision, steady = decide(spec, seen, steady, now_s, quota=quota)
        again, restarted = decide(spec, seen, restarted, now_s, quota=quota)
        restarted = memory_from_json(memory_to_json(restarted))
        assert decision == again

        assert decision.share is not None
        held, grown = gpus_held_and_grown(spec, seen, decision)
        assert grown == 0 or held + grown <= decision.share.gpus
        # What another owner set is no smaller for being above a minimum.
        minimum = sum(
            bounds.gpus_per_replica
            * max(1, bounds.min_replicas if bounds.managed else seen.replicas.get(role) or 0)
            for role, bounds in spec.roles.items()
        )
        free = quota.gpus - sum(claim.reserved for claim in quota.claims)
        assert decision.share.gpus <= max(free, held, minimum)
