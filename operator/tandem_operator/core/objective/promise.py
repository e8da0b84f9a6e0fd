"""Hold the objective as a budget: count what it was spent on, and insure against what comes back.

The one place where the error budget, the history of demand and the insurance meet the plan.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from tandem_operator.core.objective.choose_insurance import cover_for
from tandem_operator.core.objective.error_budget import ErrorBudget
from tandem_operator.core.objective.insurance import Cover, Terms, is_level, most_of
from tandem_operator.core.objective.usual_cost import Usual, as_usual, usual_of
from tandem_operator.core.observation import RouterReport
from tandem_operator.core.observe.arrivals import Arrivals
from tandem_operator.core.observe.demand_history import BUCKET_S, DemandHistory
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.demand import Situation
from tandem_operator.core.sizing.replica_counts import Choice
from tandem_operator.core.sizing.role_targets import Plan
from tandem_operator.core.slo import Slo
from tandem_operator.core.spec import PoolSpec
from tandem_operator.core.tuning.tuning import TUNING, Tuning

Floors = Mapping[Role, int]


class Planned(Protocol):
    """Makes a plan that holds no less than some floors."""

    def __call__(self, *, floors: Floors) -> Plan | None:
        """The plan; `None` while too little is known."""


@dataclass(frozen=True, slots=True)
class Basis:
    """The SLO that the wants of the history are of, and what a request kept busy under it.

    An SLO that no fleet can keep wants nothing that could be compared, so it is never the basis.
    """

    slo: Slo
    busy: Mapping[Role, float]

    def times(self, role: Role, busy: float, *, tuning: Tuning = TUNING) -> float:
        """How many times as many replicas the same requests want that keep `busy` busy now."""
        before, most = self.busy[role], tuning.objective.most_converted_ratio
        ratio = busy / before if before > 0.0 else most
        return min(most, max(1.0 / most, ratio))


@dataclass(frozen=True, slots=True)
class Promise:
    """What is remembered of the objective and of what endangers it."""

    budget: ErrorBudget = field(default_factory=ErrorBudget)
    history: DemandHistory = field(default_factory=DemandHistory)
    cover: Cover = field(default_factory=Cover)
    basis: Basis | None = None
    usual: Mapping[Role, Usual] = field(default_factory=dict)

    def look(
        self,
        spec: PoolSpec,
        *,
        routers: Sequence[RouterReport],
        arrivals: Arrivals,
        situation: Situation | None,
        lead_s: Mapping[Role, float],
        output_tokens: float | None = None,
        tuning: Tuning = TUNING,
    ) -> "Promise":
        """The promise after one more look; the insurance is looked into once a minute."""
        numbers, budget = tuning.objective, self.budget.fold(routers, tuning=tuning)
        history = self.history.close(arrivals, output_tokens=output_tokens, tuning=tuning)
        terms = Terms(spec.slo, spec.roles, spec.whole_budget)
        cover, end_s = self.cover, self.cover.end_s
        work = None if situation is None else situation.work(overflow=spec.insurance.overflow)
        basis, usual = self.basis, self.usual
        if work is not None and situation is not None and situation.feasible:
            if basis is not None and basis.slo != spec.slo:
                # What the old SLO wanted is no surprise of the new one.
                history = history.rescaled(
                    {r: basis.times(r, work.busy[r], tuning=tuning) for r in Role}
                )
                usual = {}
            basis = Basis(spec.slo, work.busy)
        if cover.terms not in (None, terms):
            # An edit of the spec frees the fleet to grow at once. The next look chooses anew.
            freed = replace(cover, most={}, level_s=None, short=None)
            cover = replace(freed, since_s=history.end_s, terms=terms)
        due = end_s is None or (
            history.end_s is not None and not 0 <= history.end_s - end_s < numbers.looked_every_s
        )
        if cover.level_s is not None and history.end_s != self.history.end_s:
            due = due or not is_level(history, tuning=tuning)
        if due and (
            history.silent_s >= numbers.half_life_s if situation is None else not situation.feasible
        ):
            # What no fleet can hold is told, not insured. Of requests that no longer come nothing
            # is known that a play would need: bursts that stayed away for so long have ended.
            cover = Cover(terms=terms, end_s=history.end_s)
        elif due and work is not None:
            usual = usual_of(usual, work, tuning=tuning)
            as_ever = as_usual(work, usual)
            cover = cover_for(
                spec,
                history,
                # A fleet for level traffic stays an hour: the minutes of its start do not size it.
                work if is_level(history, tuning=tuning) else as_ever,
                lead_s=lead_s,
                allowed_late=budget.allowed_late(
                    spec.slo.attainment, since_s=cover.since_s, tuning=tuning
                ),
                before=replace(cover, terms=terms),
                proof=budget.proof(spec.slo.attainment, since_s=cover.since_s, tuning=tuning),
                overspent=(budget.remaining(spec.slo.attainment, tuning=tuning) or 0.0) < 0.0,
                tuning=tuning,
            )
            if cover.level_s is not None:
                # The cost of the minute in which it was chosen is no measure for the hour after it.
                cover = replace(cover, busy=as_ever.busy, tokens=as_ever.mean_tokens)
        return Promise(budget=budget, history=history, cover=cover, basis=basis, usual=usual)

    def patient(self, spec: PoolSpec) -> PoolSpec:
        """The spec whose stabilisation window is the insurance's, the user's being the least."""
        return replace(spec, stabilization_s=max(spec.stabilization_s, self.cover.hold_s))

    def floors(self, seen: Floors) -> dict[Role, int]:
        """What is held at least, of violations that were seen and of those to come."""
        return {role: max(seen.get(role, 1), self.cover.floor(role)) for role in Role}

    def insure(
        self,
        planned: Planned,
        *,
        floors: Floors,
        arrivals: Arrivals,
        situation: Situation | None,
        idle: bool,
        tuning: Tuning = TUNING,
    ) -> tuple[Plan | None, "Promise"]:
        """The plan with what the insurance holds, and the promise with what it wants without.

        `planned` makes a plan under floors; `floors` are those of violations seen by now.
        """
        plan = planned(floors=floors)
        if plan is None:
            return None, self
        noted = replace(self, history=self.history.want(plan.choice.target))
        # What was busy once and rests now may never be busy again.
        held = self.floors(floors) if self.cover.recurring or not idle else dict(floors)
        if any(held.get(role, 1) > plan.keep.target[role] for role in Role):
            bare, plan = plan.choice.target, planned(floors=held) or plan
            held_for = {
                role: bursts
                for role, bursts in self.cover.bursts.items()
                if held.get(role, 1) > max(bare[role], floors.get(role, 1))
            }
            plan = replace(plan, held_for=held_for)
        lately = sum(arrivals.counts[-BUCKET_S:])
        most = {}
        if situation is not None:
            busy, tokens = situation.busy, situation.mean_tokens
            most = most_of(self.cover, lately, busy=busy, tokens=tokens, tuning=tuning)
        if most:
            allowed = {role: max(held.get(role, 1), n) for role, n in most.items()}
            plan = plan.each(partial(_no_more, most=allowed))
        return plan, noted


def _no_more(choice: Choice, *, most: Floors) -> Choice:
    target = {role: min(n, most.get(role, n)) for role, n in choice.target.items()}
    return replace(choice, target=target)
