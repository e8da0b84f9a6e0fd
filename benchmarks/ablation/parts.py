"""The steps that can be taken out, and what stands in for each: the plainest thing that works."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapreplace
from math import inf
from operator import attrgetter
from typing import Any

from tandem_operator.core.forecast.experts import EXPERTS
from tandem_operator.core.guard.guard import CONFIRM_S
from tandem_operator.core.objective.error_budget import ErrorBudget
from tandem_operator.core.objective.insurance import Cover
from tandem_operator.core.observation import RouterReport
from tandem_operator.core.observe.arrivals import Outcomes, outcomes
from tandem_operator.core.observe.demand_history import DemandHistory
from tandem_operator.core.sizing.decode_lateness import DecodeWork
from tandem_operator.core.sizing.demand import Situation
from tandem_operator.core.sizing.prefill_lateness import PrefillWork, Replay
from tandem_operator.core.sizing.scale_down_margin import EARLY_S
from tandem_operator.core.spec import PoolSpec

WHOLE = "whole"


@dataclass(frozen=True, slots=True)
class Part:
    """One line of the table.

    Attributes:
        without: what the core does in place of the step.
        instead: by dotted name below `tandem_operator.core`, what stands in for it.
    """

    without: str
    instead: Mapping[str, Any] = field(default_factory=dict)


def _last_half_minute(
    counts: Sequence[float], horizons_s: Sequence[float], *, step_age_s: int | None = None
) -> dict[str, list[float]]:
    return {"mean30": EXPERTS["mean30"].predict(counts, horizons_s)}


def _full(work: DecodeWork | PrefillWork, rate_rps: float, replicas: int) -> float:
    return float(work.load(rate_rps) > replicas)


def _loaded(replay: Replay, rate_rps: float, replicas: int) -> float:
    return _full(replay.work, rate_rps, replicas)


def _no_cover(_spec: PoolSpec, history: DemandHistory, *_: object, **__: object) -> Cover:
    return Cover(end_s=history.end_s)


def _objective(_budget: ErrorBudget, attainment: float, **_: object) -> float:
    return 1.0 - attainment


def _with_echoes(
    reports: Sequence[RouterReport], *, window_s: int, echoes: bool = True
) -> Outcomes:
    del echoes
    return outcomes(reports, window_s=window_s)


PARTS: dict[str, Part] = {
    WHOLE: Part("the core as it is"),
    "forecast": Part(
        "the rate of the last half minute stays",
        {
            "forecast.forecaster.predict_all": _last_half_minute,
            "forecast.forecaster.season": lambda *_, **__: None,
            "forecast.forecaster.repeat": lambda *_, **__: None,
        },
    ),
    "season": Part("no sines", {"forecast.forecaster.season": lambda *_, **__: None}),
    "steps": Part(
        "a jump is taken for a ramp",
        {
            "forecast.forecaster.last_step_s": lambda _: None,
            "sizing.arrival_sample.last_step_s": lambda _: None,
        },
    ),
    "look-ahead": Part(
        "nothing beyond the start-up time", {"forecast.forecaster.LOOK_AHEAD_S": 0.0}
    ),
    "proven": Part(
        "look-ahead counts whole where forecasts came true too",
        {"forecast.distribution.PROVEN_RISK": 1e-9},
    ),
    "errors": Part(
        "forecasts count as exact", {"forecast.forecaster._errors": lambda *_, **__: [0.0] * 5}
    ),
    "room": Part(
        "no room for traffic that is new and climbs", {"forecast.forecaster.YOUNG_ROOM": 0.0}
    ),
    "jump": Part(
        "growth after a jump is confirmed too", {"forecast.forecaster._jumped_up": lambda *_: False}
    ),
    "hasty": Part(
        "growth on a first climb is confirmed too",
        {"forecast.distribution.Forecast.hasty": property(attrgetter("jumped"))},
    ),
    "queueing": Part(
        "prefill is enough where its load is below one",
        {"sizing.prefill_lateness.Replay.late_share": _loaded},
    ),
    "turns": Part(
        "prefill pods are taken for one queue's servers",
        {"sizing.prefill_lateness._next_in_turn": heapreplace},
    ),
    "hopeless": Part(
        "what no replica helps counts against the models",
        {"sizing.demand.Situation.violated_share": Situation.late_share},
    ),
    "chance": Part(
        "decode is enough where its load is below one",
        {"sizing.decode_lateness.DecodeWork.late_share": _full},
    ),
    "burstiness": Part(
        "decode expects Poisson arrivals", {"sizing.arrival_sample._dispersion": lambda *_: 1.0}
    ),
    "hits": Part(
        "no prefix hits expected", {"sizing.arrival_sample.cached_share": lambda *_, **__: 0.0}
    ),
    "delivered": Part(
        "decode expects more than prefill hands over",
        {"sizing.replica_counts._delivered_rps": lambda *_: 1e9},
    ),
    "price": Part(
        "lateness has no price: enough for the mean forecast alone",
        {"learn.correction.LEAST_PRICE": 1e-9, "learn.correction.MOST_PRICE": 1e-9},
    ),
    "inertia": Part(
        "a late stream costs as much as a late prompt", {"sizing.demand.DECODE_PRICE_WEIGHT": 1.0}
    ),
    "feedback": Part(
        "the price does not follow measured attainment",
        {"learn.correction.PRICE_RATE_PER_S": 0.0},
    ),
    "slowdown": Part(
        "violations do not correct the models", {"learn.correction.FACTOR_RATE_PER_S": 0.0}
    ),
    "overhead": Part(
        "TTFT's part beside prefill is not learned",
        {"assessment.learn_overhead": lambda s, *_, **__: s},
    ),
    "urgent": Part(
        "violations demand no replicas at once", {"action.urgent_floors": lambda *_, **__: {}}
    ),
    "trend": Part(
        "output lengths are those of what ended", {"learn.output_lengths.MOST_CORRECTION": 0.0}
    ),
    "confirm": Part("growth needs one tick, not two", {"guard.guard.CONFIRM_S": 0.0}),
    "small": Part(
        "growth for a small need does not wait", {"guard.guard.CONFIRM_SMALL_S": CONFIRM_S}
    ),
    "headroom": Part(
        "a low that may be chance gives back", {"sizing.role_targets.headroom": lambda **_: 0.0}
    ),
    "doubt": Part(
        "what is known of 45 s is known as well", {"sizing.scale_down_margin.SEEN_S": EARLY_S}
    ),
}

# Steps that show behind the router and on traffic that comes back: the insurance and its budget.
INSURANCE: dict[str, Part] = {
    "insurance": Part(
        "nothing is held for bursts that came", {"objective.promise.cover_for": _no_cover}
    ),
    "budget": Part(
        "the objective is planned for, whatever is left of its budget",
        {"objective.error_budget.ErrorBudget.allowed_late": _objective},
    ),
    "record": Part(
        "more than any burst needed may be held",
        {"objective.promise.most_of": lambda *_, **__: {}},
    ),
    "level": Part(
        "no fleet stays as it is on level traffic",
        {
            "objective.choose_insurance.is_level": lambda _: False,
            "objective.promise.is_level": lambda _: False,
        },
    ),
    "gross": Part("no single burst is insured against", {"objective.surprises.GROSS": inf}),
    "new": Part("the first wave of a pool counts as a burst", {"objective.surprises.NEW_S": 0}),
    "loyalty": Part(
        "the cheapest insurance is taken each minute", {"objective.choose_insurance.LOYALTY": 1.0}
    ),
    "usual": Part(
        "the past is played at the cost of this minute",
        {"objective.promise.as_usual": lambda work, _: work},
    ),
    "answers": Part("few answers count as many", {"learn.output_lengths.ENOUGH_ANSWERS": 0}),
    "repeat": Part(
        "no period from hours of demand", {"forecast.forecaster.repeat": lambda *_, **__: None}
    ),
    "urgent": PARTS["urgent"],
    "echoes": Part("what ends late counts again", {"learn.correction.outcomes": _with_echoes}),
}
