"""One sentence per role and tick: what happens, which latency caused it, with the numbers.

A sentence about no change holds only numbers that the user set, so it stays the same while nothing
happens. Changing numbers appear only with a change.
"""

from dataclasses import dataclass

from tandem_operator.core.decision import Reason
from tandem_operator.core.explain.tick_result import rounded
from tandem_operator.core.guard.allowed import Allowed
from tandem_operator.core.objective.rest import Pauses
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.role_targets import Bursts
from tandem_operator.core.spec import Period

LONGEST_SHOWN_S = 60.0
LEAST_SHOWN_SHARE = 0.001


@dataclass(frozen=True, slots=True)
class LatencyOutlook:
    """The latency that decides a role's count: as measured, and as predicted for each count.

    Attributes:
        quantity: "TTFT p95" or "TPOT".
        bound_s: the bound in the SLO.
        observed_s: of the last two minutes, if it broke the bound because of this role.
        before_s: predicted with the present count; `None` if the queue would grow without limit.
        after_s: predicted with the new count.
        late_share: predicted share late with the present count.
        load: the load behind the prediction, in words; a further clause may follow.
        batch_limit: the limit of the decode batch in words, if it is not step time.
        kv_bound: whether that limit is KV capacity.
    """

    quantity: str
    bound_s: float
    observed_s: float | None
    before_s: float | None
    after_s: float | None
    late_share: float
    load: str
    batch_limit: str | None = None
    kv_bound: bool = False


@dataclass(frozen=True, slots=True)
class RestWords:
    """Facts for sentences about a pool that may sleep.

    Attributes:
        waiting: requests that wait for it.
        pauses: how long it is held awake, and why.
        called: whether a schedule wakes it.
    """

    waiting: int
    pauses: Pauses
    called: bool = False

    @property
    def held(self) -> str:
        """Return why it is held awake for longer than its spec says."""
        seen, longer = self.pauses, _span(rounded(self.pauses.break_even_s, 2))
        return (
            f"{seen.spanned} of the last {seen.known} pauses ended within {longer} more, which cost"
            f" less than a start; the pool sleeps after {_span(rounded(seen.hold_s, 2))}"
        )


@dataclass(frozen=True, slots=True)
class ScheduleWords:
    """Facts for sentences about a role that a schedule holds.

    Attributes:
        period: the one that holds it.
        floor: the replicas that it holds, inside the GPU budget.
        begun: whether it is in force.
    """

    period: Period
    floor: int
    begun: bool

    def text(self, role: Role, *, budget: str) -> str:
        """Return what it holds, and for how long."""
        period, count = self.period, self.period.floors.get(role)
        own = count is None or count < self.floor
        what = "keeps the pool awake" if own else f"holds {count}"
        if not self.begun:
            when = f"from {period.begins}"
        else:
            when = "without a break" if period.ends is None else f"until {period.ends}"
        room = f", but {budget} has room for {self.floor}" if self.floor < (count or 0) else ""
        return f'the schedule "{period.schedule}" {what} {when}{room}'


@dataclass(frozen=True, slots=True)
class Words:
    """Facts that a sentence may need besides the counts.

    Attributes:
        wanted: the count before any limit.
        pending: whether it would grow if the same count had been wanted for longer.
        budget: of GPUs, in words.
        room: the share of load beyond the forecast for which it is kept; `None` if the forecast
            itself needs it.
        stands_in: whether it grows only for pods that are stuck while others of their kind serve.
        quota: the pools that share the namespace's quota, if that is the budget in force.
        out_of_reach: the bound that no number of replicas of this role keeps, if there is one.
        bursts: those for which it holds more than the forecast needs.
        rest: facts about a pool that may sleep.
        schedule: the schedule that holds it, if one does.
        start_s: how long a start takes; `None` while none was measured.
    """

    role: Role
    outlook: LatencyOutlook | None
    stabilization_s: float
    budget: str
    fresh_message: str
    stuck: str | None
    minimum: int
    maximum: int
    idle: bool
    learning: bool
    wanted: int = 0
    pending: bool = False
    room: float | None = None
    stands_in: bool = False
    quota: str | None = None
    out_of_reach: str | None = None
    bursts: Bursts | None = None
    rest: RestWords | None = None
    schedule: ScheduleWords | None = None
    start_s: float | None = None


def percent(share: float) -> str:
    """Return a share for people: whole percents, or two significant digits for small ones."""
    if 0.0 < share < LEAST_SHOWN_SHARE:
        return f"less than {100.0 * LEAST_SHOWN_SHARE:g} %"
    return f"{100.0 * share:.0f} %" if share >= 0.0995 else f"{100.0 * share:.2g} %"


def seconds(value_s: float) -> str:
    """Return a duration for people: two or three significant digits, ms below one second."""
    if value_s < 0.0995:
        return f"{value_s * 1000:.3g} ms"
    if value_s < 1.0:
        return f"{value_s:.2f} s"
    return f"{value_s:.3g} s" if value_s < 100 else f"{value_s:.0f} s"


def cause(words: Words) -> Reason:
    """Return why a role grows."""
    outlook = words.outlook
    if words.stands_in:
        return Reason.REPLACING_PODS
    if outlook is not None and outlook.kv_bound:
        return Reason.KV_CAPACITY
    observed = outlook is not None and outlook.observed_s is not None
    # A full batch with fast steps keeps requests out: this increases TTFT.
    admission = outlook is not None and outlook.batch_limit is not None
    if words.role is Role.PREFILL or (admission and not observed):
        return Reason.OBSERVED_TTFT if observed else Reason.PREDICTED_TTFT
    return Reason.OBSERVED_TPOT if observed else Reason.PREDICTED_TPOT


def sentence(words: Words, allowed: Allowed, reason: Reason) -> str:
    """Return the role's sentence."""
    name = words.role.value
    if allowed.to != allowed.current:
        change = f"{name} {allowed.current} -> {allowed.to}: "
        return change + _why_changed(words, allowed, reason)
    return f"{name} stays at {allowed.to}: " + _why_kept(words, allowed, reason)


def _why_changed(words: Words, allowed: Allowed, reason: Reason) -> str:
    asked = _why_asked(words, reason)
    if asked is not None:
        return asked
    grows = allowed.to > allowed.current
    bound = f"minReplicas is {words.minimum}" if grows else f"maxReplicas is {words.maximum}"
    orders = {
        Reason.INITIAL: "the pool starts with minReplicas",
        Reason.AT_BOUND: bound,
        Reason.GPU_BUDGET: f"the pool must fit into {words.budget}",
        Reason.NAMESPACE_QUOTA: words.quota or "",
        Reason.REPLACING_PODS: f"{words.stuck}; Tandem starts another pod",
        Reason.NODE_DRAIN: (
            "the node of its only Ready pod is being drained; Tandem starts another pod first"
            if grows
            else "another pod is Ready; Tandem removes the pod on the node that is being drained"
        ),
    }
    if reason in orders:
        return orders[reason]
    if not grows:
        if words.idle:
            return f"no requests arrived for {_span(words.stabilization_s)}"
        fewer = f"{_replicas(allowed.current - allowed.to)} fewer would have"
        return f"{fewer} {_kept(words)} for the last {_span(words.stabilization_s)}"
    growth = (
        held_for(words.bursts, words.role) if words.bursts is not None else _growth(words, allowed)
    )
    if words.quota is not None and "gpuBudget" in allowed.limits_hit:
        wanted = f"{_replicas(words.wanted)} would be better, but only {allowed.to} can run"
        growth += f"; {wanted}; {words.quota}"
    return growth


def _why_asked(words: Words, reason: Reason) -> str | None:
    """Return why a pool sleeps, or what wants it awake or larger: a request, or a schedule."""
    rest, schedule = words.rest, words.schedule
    start = "" if words.start_s is None else f"; a start takes about {seconds(words.start_s)}"
    by_schedule = rest is not None and rest.called and reason is Reason.WAKING
    if schedule is not None and (reason is Reason.SCHEDULE or by_schedule):
        text = schedule.text(words.role, budget=words.budget)
        return text if schedule.begun else f"{text}{start}"
    if rest is not None and reason is Reason.ASLEEP:
        hold = _span(rounded(rest.pauses.hold_s, 2))
        return f"no request arrived for {hold}; {_next_wake(words)}"
    if rest is not None and reason is Reason.WAKING:
        return f"{_requests(rest.waiting)}{start}"
    return None


def _kept(words: Words) -> str:
    if words.outlook is None:
        return "been enough"
    if words.out_of_reach is not None:
        return "served every request"
    return f"kept {words.outlook.quantity} within {seconds(words.outlook.bound_s)}"


def _replicas(count: int) -> str:
    return f"{count} replica" if count == 1 else f"{count} replicas"


def _growth(words: Words, allowed: Allowed) -> str:
    outlook = words.outlook
    if outlook is None:
        return "the forecast load is higher"
    bound = f"(bound {seconds(outlook.bound_s)})"
    more = allowed.to - allowed.current
    if outlook.batch_limit is not None and outlook.observed_s is None:
        late = percent(outlook.late_share)
        return (
            f"{outlook.batch_limit} limits the decode batch; predicted TTFT is over its bound for"
            f" {late} of requests at {outlook.load}"
        )
    if outlook.observed_s is not None:
        seen = f"{outlook.quantity} was {seconds(outlook.observed_s)} {bound}"
        text = f"{seen} in the last 2 minutes; the forecast is {outlook.load}"
    elif outlook.before_s is None or outlook.before_s > LONGEST_SHOWN_S:
        least = seconds(LONGEST_SHOWN_S)
        text = f"predicted {outlook.quantity} is over {least} {bound} at {outlook.load}"
    elif outlook.before_s > outlook.bound_s:
        before = seconds(outlook.before_s)
        text = f"predicted {outlook.quantity} is {before} {bound} at {outlook.load}"
    else:
        late = percent(outlook.late_share)
        what = outlook.quantity.split()[0]
        bound = seconds(outlook.bound_s)
        text = f"predicted {what} is over {bound} for {late} of requests at {outlook.load}"
    if outlook.after_s is None or outlook.after_s > LONGEST_SHOWN_S:
        return text
    verb = "bring" if more != 1 else "brings"
    gain = f"{verb} {outlook.quantity} to {seconds(outlook.after_s)}"
    return f"{text}; {more} more {'replica' if more == 1 else 'replicas'} {gain}"


def _next_wake(words: Words) -> str:
    """Return the effect of the next request at a pool that sleeps."""
    text = "the next request wakes both roles"
    if words.start_s is None:
        return text
    return f"{text}, which takes about {seconds(rounded(words.start_s, 2))}"


def _requests(waiting: int) -> str:
    return "1 request waits" if waiting == 1 else f"{waiting} requests wait"


def _why_kept(words: Words, allowed: Allowed, reason: Reason) -> str:
    if words.schedule is not None and reason is Reason.SCHEDULE:
        return words.schedule.text(words.role, budget=words.budget)
    if words.rest is not None and reason is Reason.ASLEEP:
        return f"the pool sleeps; {_next_wake(words)}"
    if words.rest is not None and reason is Reason.FREQUENT_WAKES:
        return words.rest.held
    if words.bursts is not None and reason is Reason.RECURRING_BURSTS:
        return held_for(words.bursts, words.role)
    texts = {
        Reason.STALE_METRICS: words.fresh_message,
        Reason.NODE_DRAIN: (
            "the node of its only pod is being drained, but the GPU budget has no room for another"
            " pod"
            if allowed.limits_hit
            else "once another pod is Ready, Tandem removes the pod on the node that is being"
            " drained"
        ),
        Reason.CAPACITY_BLOCKED: words.stuck or "the cluster does not start its pods",
        Reason.AT_BOUND: f"more replicas would be better, but maxReplicas is {words.maximum}",
        Reason.STARTING_PODS: "its new pods are starting",
        Reason.NAMESPACE_QUOTA: f"more replicas would be better; {words.quota}",
        Reason.NEW_TRAFFIC: "1 replica fewer may be enough, but the traffic history is too short",
        Reason.STABILIZING: (
            "1 replica fewer would be enough;"
            f" scaling down if that holds for {_span(words.stabilization_s)}"
        ),
        Reason.GPU_BUDGET: (
            f"more replicas would be better, but {words.budget} has no room for another replica"
        ),
    }
    return texts.get(reason) or _why_right(words)


def held_for(bursts: Bursts, role: Role) -> str:
    """Return the bursts that an insurance is for, and the late share with one replica fewer."""
    rate = f"about {rounded(bursts.rate_rps, 2):g} requests/s"
    if bursts.tokens is not None:
        kind = "prompt" if role is Role.PREFILL else "output"
        rate += f" of {rounded(bursts.tokens, 2):.0f} {kind} tokens"
    minutes = max(1, round(bursts.span_s / 60.0))
    span = "in the last minute" if minutes == 1 else f"in the last {minutes} minutes"
    late, fewer = f"{percent(bursts.late_share)} of", "requests would be late with 1 replica fewer"
    if bursts.times == 1:
        return f"a burst of {rate} arrived {span}; {late} its {fewer}"
    return f"bursts of {rate} arrived {bursts.times} times {span}; {late} their {fewer}"


def _why_right(words: Words) -> str:
    """Return why a count without any limit or obstacle is right."""
    if words.idle:
        return "no requests arrive"
    if words.learning:
        return "Tandem has too few measurements to size it"
    if words.pending:
        return "more replicas may be needed; scaling up within 15 s if that holds"
    if words.room is not None:
        more = f"{100.0 * words.room:.0f} % more load"
        return f"1 replica fewer would be enough for the forecast, but not for {more}"
    if words.outlook is None:
        return "no change is needed"
    return (
        words.out_of_reach
        or f"{words.outlook.quantity} is expected within {seconds(words.outlook.bound_s)}"
    )


def _span(value_s: float) -> str:
    return f"{value_s:.0f} s"
