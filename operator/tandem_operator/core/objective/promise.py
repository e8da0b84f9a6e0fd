"""Keep the objective as a budget: count its spending, and insure against recurring bursts.

Only here do the error budget, the history of demand and the insurance meet the plan.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from tandem_operator.core.objective.choose_insurance import cover_for
from tandem_operator.core.objective.error_budget import ErrorBudget
from tandem_operator.core.objective.insurance import (
    Cover,
    Terms,
    answers_drift,
    has_risen,
    is_level,
    most_of,
)
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
    """Makes a plan that holds at least some floors."""

    def __call__(self, *, floors: Floors) -> Plan | None:
        """Return the plan; `None` while too little is known."""


@dataclass(frozen=True, slots=True)
class Basis:
    """The SLO behind the recorded needs of the history, and the cost of a request under it.

    An SLO that no fleet can keep gives no comparable needs, so it is never the basis.
    """

    slo: Slo
    busy: Mapping[Role, float]

    def times(self, role: Role, busy: float, *, tuning: Tuning = TUNING) -> float:
        """Return the factor on replicas for the same requests with the present `busy`."""
        before, most = self.busy[role], tuning.objective.most_converted_ratio
        ratio = busy / before if before > 0.0 else most
        return min(most, max(1.0 / most, ratio))


@dataclass(frozen=True, slots=True)
class Promise:
    """The memory of the objective and of the bursts that endanger it."""

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
        """Return the promise after one more look; it checks the insurance once a minute."""
        numbers, budget = tuning.objective, self.budget.fold(routers, tuning=tuning)
        # Requests late for a wake count as late, but no insurance is chosen against them.
        awake = budget.awake
        history = self.history.close(arrivals, output_tokens=output_tokens, tuning=tuning)
        terms = Terms(spec.slo, spec.roles, spec.whole_budget)
        cover, end_s = self.cover, self.cover.end_s
        work = None if situation is None else situation.work(overflow=spec.insurance.overflow)
        basis, usual = self.basis, self.usual
        if work is not None and situation is not None and situation.feasible:
            if basis is not None and basis.slo != spec.slo:
                # The needs of the old SLO are no surprises of the new one.
                history = history.rescaled(
                    {r: basis.times(r, work.busy[r], tuning=tuning) for r in Role}
                )
                usual = {}
            basis = Basis(spec.slo, work.busy)
        if cover.terms not in (None, terms):
            # An edit of the spec lets the fleet grow at once. The next look chooses again.
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
            # A need that no fleet can hold is reported, not insured. If requests no longer come, a
            # replay lacks their cost: bursts that stayed away for so long have ended.
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
                allowed_late=awake.allowed_late(
                    spec.slo.attainment, since_s=cover.since_s, tuning=tuning
                ),
                before=replace(cover, terms=terms),
                proof=awake.proof(spec.slo.attainment, since_s=cover.since_s, tuning=tuning),
                overspent=(awake.remaining(spec.slo.attainment, tuning=tuning) or 0.0) < 0.0,
                tuning=tuning,
            )
            if cover.level_s is not None:
                # The cost of the minute in which it was chosen does not apply to the hour after it.
                cover = replace(cover, busy=as_ever.busy, tokens=as_ever.mean_tokens)
        if cover.level_s is not None and answers_drift(history, tuning=tuning):
            # Requests come as before, so prefill stays. Decode follows the new answers.
            cover = cover.without(Role.DECODE)
        return Promise(budget=budget, history=history, cover=cover, basis=basis, usual=usual)

    def patient(self, spec: PoolSpec) -> PoolSpec:
        """Return the spec with the insurance's stabilisation window, if that is longer."""
        return replace(spec, stabilization_s=max(spec.stabilization_s, self.cover.hold_s))

    def floors(self, seen: Floors) -> dict[Role, int]:
        """Return the least counts, for violations that were seen and bursts to come."""
        return {role: max(seen.get(role, 1), self.cover.floor(role)) for role in Role}

    def insure(
        self,
        planned: Planned,
        *,
        floors: Floors,
        arrivals: Arrivals,
        situation: Situation | None,
        attainment: float,
        idle: bool,
        tuning: Tuning = TUNING,
    ) -> tuple[Plan | None, "Promise"]:
        """Return the plan with the insurance, and the promise with the needs without it.

        `planned` makes a plan under floors; `floors` are those of violations seen by now.
        `attainment` is that of the SLO.
        """
        plan = planned(floors=floors)
        if plan is None:
            return None, self
        noted = replace(self, history=self.history.want(plan.choice.target))
        # A pool that was busy once and is at rest now may never be busy again.
        held = self.floors(floors) if self.cover.recurring or not idle else dict(floors)
        if any(held.get(role, 1) > plan.keep.target[role] for role in Role):
            bare, plan = plan.choice.target, planned(floors=held) or plan
            held_for = {
                role: bursts
                for role, bursts in self.cover.bursts.items()
                if held.get(role, 1) > max(bare[role], floors.get(role, 1))
            }
            plan = replace(plan, held_for=held_for)
        most = {}
        if situation is not None and self._suffices(arrivals, attainment, tuning=tuning):
            lately = sum(arrivals.counts[-BUCKET_S:])
            busy, tokens = situation.busy, situation.mean_tokens
            most = most_of(self.cover, lately, busy=busy, tokens=tokens, tuning=tuning)
        if most:
            allowed = {role: max(held.get(role, 1), n) for role, n in most.items()}
            plan = plan.each(partial(_no_more, most=allowed))
        return plan, noted

    def _suffices(self, arrivals: Arrivals, attainment: float, *, tuning: Tuning = TUNING) -> bool:
        """Return whether the insurance can also be a limit: traffic stays, and few are late."""
        if self.budget.awake.burns(attainment, tuning=tuning):
            return False
        level = self.cover.level_s is not None
        return not (level and has_risen(self.history, arrivals.counts, tuning=tuning))


def _no_more(choice: Choice, *, most: Floors) -> Choice:
    target = {role: min(n, most.get(role, n)) for role, n in choice.target.items()}
    return replace(choice, target=target)
