"""The sentences of decisions, each made by the core from plain values."""

from collections.abc import Iterator
from dataclasses import replace

from tandem_operator.core.decision import Reason
from tandem_operator.core.explain.sentences import (
    LatencyOutlook,
    ScheduleWords,
    Words,
    cause,
    sentence,
)
from tandem_operator.core.guard.allowed import Allowed
from tandem_operator.core.guard.router_count import count_routers
from tandem_operator.core.guard.stabilization import Wants
from tandem_operator.core.observe.freshness import freshness
from tandem_operator.core.quota.allocate import Claim
from tandem_operator.core.quota.share import Quota
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.role_targets import Bursts
from tandem_operator.core.spec import Period
from tandem_operator.core.tuning.tuning import TUNING
from tests.unit.core.scene import NOW_S, make_spec, observe, report

LOAD = {
    Role.PREFILL: "4.2 requests/s of 1500 prompt tokens over the next 95 s",
    Role.DECODE: "2 requests/s of 240 output tokens over the next 170 s",
}
NEW = "; the rate is 1.5 times the forecast, since the traffic is new"
STUCK = "pod chat-7d4f: ImagePullBackOff"
OUT_OF_REACH = "no number of replicas can keep TTFT within 1.5 s for 99 % of requests"
BURSTS = Bursts(rate_rps=40.0, times=6, span_s=1800.0, late_share=0.09)


MANY = tuple(Claim(f"p{rank}", rank, least=1, held=1) for rank in range(5))
QUOTAS = tuple(
    Quota(pool="own", hard_gpus=8, gpus=gpus, claims=claims).words
    for gpus, claims in ((8, ()), (8, (Claim("chat", 10, least=1, held=1),)), (6, MANY))
)


def words(role: Role, outlook: LatencyOutlook | None = None, **changes: object) -> Words:
    """Return a role at two replicas of at most four."""
    made = Words(
        role=role,
        outlook=outlook,
        stabilization_s=60.0,
        budget=make_spec(gpu_budget=4).budget_words,
        fresh_message=next(_freshness()),
        stuck=STUCK,
        minimum=3,
        maximum=4,
        idle=False,
        learning=False,
        wanted=5,
        quota=QUOTAS[1],
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def outlook(role: Role, **changes: object) -> LatencyOutlook:
    """Return a prediction beyond the bound, and within it after growth."""
    if role is Role.PREFILL:
        made = LatencyOutlook("TTFT p95", 1.5, None, 1.9, 0.8, 0.2, LOAD[role])
    else:
        made = LatencyOutlook("TPOT", 0.025, None, 0.0312, 0.019, 0.2, LOAD[role])
    return replace(made, **changes)  # type: ignore[arg-type]


def growth(role: Role) -> Iterator[str]:
    """Yield why a role grows."""
    shapes: tuple[dict[str, object], ...] = (
        {},
        {"before_s": None},
        {"before_s": 0.01},
        {"observed_s": 2.5, "after_s": None},
        {"observed_s": 2.5},
        {"load": LOAD[role] + NEW},
    )
    for shape in shapes:
        yield _grown(words(role, outlook(role, **shape), quota=None))
    if role is Role.DECODE:
        full = outlook(role, batch_limit="KV capacity (5 streams)", kv_bound=True)
        yield _grown(words(role, full, quota=None))
    yield _grown(words(role, outlook(role), bursts=BURSTS, quota=None))
    yield _grown(words(role, quota=None))
    for quota in QUOTAS:
        yield _grown(words(role, outlook(role), quota=quota), "gpuBudget")


def _grown(told: Words, *limits: str) -> str:
    return sentence(told, Allowed(2, 4, None, limits), cause(told))


def orders(role: Role) -> Iterator[str]:
    """Yield why a role changes for another cause than load."""
    told = words(role, outlook(role))
    yield sentence(told, Allowed(0, 3, Reason.INITIAL), Reason.INITIAL)
    for reason in (Reason.AT_BOUND, Reason.REPLACING_PODS, Reason.NODE_DRAIN):
        yield sentence(told, Allowed(2, 3, reason), reason)
    for reason in (Reason.AT_BOUND, Reason.GPU_BUDGET, Reason.NAMESPACE_QUOTA, Reason.NODE_DRAIN):
        yield sentence(told, Allowed(5, 4, reason), reason)


def shrinking(role: Role) -> Iterator[str]:
    """Yield why a role shrinks."""
    shapes = (
        words(role, outlook(role)),
        words(role, outlook(role), out_of_reach=OUT_OF_REACH),
        words(role),
        words(role, idle=True),
    )
    for told in shapes:
        for to in (2, 1):
            allowed = Allowed(3, to, Reason.SPARE_CAPACITY)
            yield sentence(told, allowed, Reason.SPARE_CAPACITY)


def rest(role: Role) -> Iterator[str]:
    """Yield why a role stays as it is: each reason, then each shape of `Steady`."""
    for reason in Reason:
        if reason not in (Reason.INITIAL, Reason.STEADY, Reason.SCHEDULE):
            told = words(role, outlook(role), bursts=BURSTS)
            yield sentence(told, Allowed(2, 2, reason), reason)
    limited = Allowed(2, 2, Reason.NODE_DRAIN, ("gpuBudget",))
    yield sentence(words(role, outlook(role)), limited, Reason.NODE_DRAIN)
    for quota in QUOTAS:
        yield sentence(words(role, quota=quota), limited, Reason.NAMESPACE_QUOTA)
    once = replace(BURSTS, times=1, span_s=60.0)
    yield sentence(words(role, bursts=once), limited, Reason.RECURRING_BURSTS)
    longer = replace(BURSTS, tokens=5210.0)
    yield sentence(words(role, bursts=longer), limited, Reason.RECURRING_BURSTS)
    shapes: tuple[dict[str, object], ...] = (
        {},
        {"idle": True},
        {"learning": True},
        {"pending": True},
        {"room": 0.1},
        {"out_of_reach": OUT_OF_REACH},
        {"outlook": None},
    )
    for shape in shapes:
        told = replace(words(role, outlook(role)), **shape)  # type: ignore[arg-type]
        yield sentence(told, Allowed(2, 2, Reason.STEADY), Reason.STEADY)
    for schedule in _schedules(role):
        told = words(role, schedule=schedule)
        yield sentence(told, Allowed(2, 2, Reason.SCHEDULE), Reason.SCHEDULE)
    for message in _freshness():
        told = words(role, fresh_message=message)
        yield sentence(told, Allowed(2, 2, Reason.STALE_METRICS), Reason.STALE_METRICS)


def _schedules(role: Role) -> Iterator[ScheduleWords]:
    office = Period("office", {role: 2}, NOW_S, NOW_S + 36000.0, "08:00 UTC", "18:00 UTC")
    shapes: tuple[tuple[Period, int, bool], ...] = (
        (office, 2, False),
        (office, 2, True),
        (office, 1, True),
        (replace(office, floors={}), 1, True),
        (replace(office, end_s=None, ends=None), 2, True),
    )
    for period, floor, begun in shapes:
        yield ScheduleWords(period=period, floor=floor, begun=begun)


def _freshness() -> Iterator[str]:
    seen = observe(prefill=3, decode=3)
    gone = report(router="router-2", ended=True, now_s=NOW_S - 1)
    pools = (
        replace(seen, routers=(), router_pods=2),
        replace(seen, routers=(), router_pods=0),
        replace(seen, engines=()),
        replace(seen, router_pods=2),
        replace(seen, turned_away=True),
        replace(seen, routers=(*seen.routers, gone)),
        replace(seen, engines=seen.engines[1:]),
        seen,
    )
    for pool in pools:
        yield freshness(pool, NOW_S).message


def routers() -> Iterator[str]:
    """Yield why there are more or fewer routers."""
    busy, calm = report(busy_share=0.7), report(busy_share=0.1)
    for seen, asked in ((busy, 1), (busy, 9), (calm, 2)):
        wants = Wants()
        for step_s in range(0, int(TUNING.guard.router_shrink_after_s) + 10, 5):
            found = count_routers(
                wants, [seen], asked=asked, expected=1, least=1, most=4, now_s=NOW_S + step_s
            )
            wants = found.wants
            if found.why is not None:
                yield f"routers {asked} -> {found.to}: {found.why}"
                break
