"""The part of a namespace's quota that one pool may hold now, and its claim for other pools.

Each pool changes only its own grant. It grants itself only GPUs that others neither hold nor were
granted. So pools together never exceed the quota, whatever the order of their ticks. GPUs that one
pool gives up reach another once the pods that hold them, terminating pods included, are seen to be
gone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tandem_operator.core.observe.role_pods import RolePods
from tandem_operator.core.quota.allocate import Claim, allocate
from tandem_operator.core.quota.demand_curve import Curve
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.replica_counts import gpus_of
from tandem_operator.core.spec import Mode, PoolSpec
from tandem_operator.core.tuning.tuning import TUNING, Tuning

MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Quota:
    """The GPUs that the pools of a namespace share.

    Attributes:
        pool: the pool with this view.
        hard_gpus: the limit in the quota.
        gpus: the part of it that only these pools use.
        claims: of the other pools.
    """

    pool: str
    hard_gpus: int
    gpus: int
    claims: tuple[Claim, ...] = ()

    @property
    def words(self) -> str:
        """Return the users of the quota, in numbers that users set."""
        text = f"the namespace quota of {self.hard_gpus} GPU{'' if self.hard_gpus == 1 else 's'}"
        others = sorted(
            (claim for claim in self.claims if claim.reserved > 0),
            key=lambda claim: (-claim.priority, claim.pool),
        )
        named = [f"{claim.pool} (priority {claim.priority})" for claim in others[:MOST_NAMED]]
        if named:
            named[0] = f"{'pool' if len(others) == 1 else 'pools'} {named[0]}"
        if len(others) > MOST_NAMED:
            named.append(f"{len(others) - MOST_NAMED} more")
        if self.gpus < self.hard_gpus:
            named.append("other pods")
        if not named:
            return f"{text} has no free GPU"
        *most, last = named
        return f"{text} is shared with {', '.join(most)}{' and ' if most else ''}{last}"


@dataclass(frozen=True, slots=True)
class Crest:
    """A pool's most demanding recent curve: a dip of one tick gives no GPU away."""

    at_s: float
    curve: Curve


@dataclass(frozen=True, slots=True)
class Share:
    """One pool's part of the quota.

    Attributes:
        gpus: the most that it may hold now.
        surge_gpus: the most that a rollout may hold for a while, with GPUs that no pool wants.
        binds: whether this is tighter than the pool's own budget.
        words: why there is no more.
        claim: the claim for other pools; `None` for a pool whose counts Tandem does not set: for
            other pools its pods are used by others.
        waiting: GPUs of a minimum that waits for others to shrink; else 0.
    """

    gpus: int
    surge_gpus: int
    binds: bool
    words: str
    claim: Claim | None
    waiting: int = 0

    def limit(self, spec: PoolSpec) -> PoolSpec:
        """Return the spec with the share as budget, if the share is tighter."""
        return replace(spec, gpu_budget=self.gpus) if self.binds else spec

    def with_surge(self, spec: PoolSpec) -> PoolSpec:
        """Return the spec with the surge limit as budget, if it is tighter."""
        own = self.surge_gpus if spec.gpu_budget is None else spec.gpu_budget
        return replace(spec, gpu_budget=min(own, self.surge_gpus))


def crest_of(
    last: Crest | None,
    curve: Curve,
    *,
    asked_gpus: int,
    now_s: float,
    tuning: Tuning = TUNING,
) -> tuple[Curve, Crest]:
    """Return the curve to claim by, and the crest from now on.

    A pool that asks for more than it wants at this moment claims by its crest.
    """
    end_gpus = curve[-1].gpus if curve else 0
    if (
        last is not None
        and 0.0 <= now_s - last.at_s <= tuning.quota.crest_s
        and last.curve
        and last.curve[-1].gpus > end_gpus
    ):
        return (last.curve if asked_gpus > end_gpus else curve), last
    return curve, Crest(now_s, curve)


def take_share(
    spec: PoolSpec,
    quota: Quota,
    fleets: Mapping[Role, RolePods],
    *,
    curve: Curve,
    keep_all: bool,
    asleep: bool = False,
    tuning: Tuning = TUNING,
) -> Share:
    """Return the GPUs that the pool may hold, given the claims of the other pools.

    `keep_all` is for a pool of which too little is known to take any GPU away. A pool that is
    `asleep` claims nothing: others can use its GPUs until a request wakes it.
    """
    asked = {role: fleets[role].asked or 0 for role in Role}
    least = {
        role: max(1, spec.roles[role].min_replicas) if spec.roles[role].managed else asked[role]
        for role in Role
    }
    if asleep:
        least, asked, curve = dict.fromkeys(Role, 0), dict.fromkeys(Role, 0), ()
    asked_gpus, least_gpus = gpus_of(spec, asked), gpus_of(spec, least)
    own = Claim(
        pool=quota.pool,
        priority=spec.priority,
        least=max(least_gpus, asked_gpus) if keep_all else least_gpus,
        curve=curve,
        asked=asked_gpus,
        held=gpus_of(spec, {role: fleets[role].held for role in Role}),
    )
    due = allocate((*quota.claims, own), gpus=quota.gpus, tuning=tuning)
    room = quota.gpus - sum(claim.reserved for claim in quota.claims)
    gpus = min(due[own.pool], max(room, own.held))
    waiting = 0
    if least_gpus > quota.hard_gpus or (own.held > 0 and due[own.pool] < least_gpus):
        # It can never fit, or the minimum was raised while it runs. The minimum is the user's
        # order: the API server reports its refusal.
        gpus = least_gpus
    elif own.held == 0 and gpus < least_gpus:
        gpus, waiting = 0, least_gpus
    elif keep_all and own.held > 0:
        # A lowered quota evicts no pod, and a pool without fresh data keeps its pods.
        gpus = max(gpus, asked_gpus)
    wanted_by_others = sum(max(c.reserved, due[c.pool]) for c in quota.claims)
    acts = spec.mode is Mode.AUTO and any(spec.roles[role].managed for role in Role)
    return Share(
        gpus=gpus,
        surge_gpus=max(gpus, quota.gpus - wanted_by_others),
        binds=spec.gpu_budget is None or gpus < spec.gpu_budget,
        words=quota.words,
        claim=replace(own, granted=gpus) if acts else None,
        waiting=waiting,
    )
