"""The steps that can be taken out, and a stand-in for each: the plainest thing that works."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from operator import attrgetter
from typing import Any

from tandem_operator.core.forecast.experts import EXPERTS
from tandem_operator.core.objective.error_budget import ErrorBudget
from tandem_operator.core.objective.insurance import Cover
from tandem_operator.core.observation import RouterReport
from tandem_operator.core.observe.arrivals import Outcomes, outcomes
from tandem_operator.core.observe.demand_history import DemandHistory
from tandem_operator.core.sizing.decode_lateness import DecodeWork
from tandem_operator.core.sizing.demand import Situation
from tandem_operator.core.sizing.prefill_lateness import PrefillWork, Replay
from tandem_operator.core.spec import PoolSpec
from tandem_operator.core.tuning.tuning import TUNING, Tuning

WHOLE = "whole"
CHANCE = ("later", "sooner")


def _as_it_ships(tuning: Tuning) -> Tuning:
    return tuning


@dataclass(frozen=True, slots=True)
class Part:
    """One line of the table.

    Attributes:
        without: the core's behaviour in place of the step.
        tuned: the core's numbers without the step.
        instead: the stand-ins, by dotted name below `tandem_operator.core`, for a step that no
            number takes out.
        later_s: the added seconds of a start-up. They take no step out: they show chance.
    """

    without: str
    tuned: Callable[[Tuning], Tuning] = _as_it_ships
    instead: Mapping[str, Any] = field(default_factory=dict)
    later_s: float = 0.0


def _with(room: str, **numbers: Any) -> Callable[[Tuning], Tuning]:
    """Return a change of the numbers of one room of the core."""

    def tuned(tuning: Tuning) -> Tuning:
        return replace(tuning, **{room: replace(getattr(tuning, room), **numbers)})

    return tuned


def _last_half_minute(
    counts: Sequence[float],
    horizons_s: Sequence[float],
    *,
    step_age_s: int | None = None,
    tuning: Tuning = TUNING,
) -> dict[str, list[float]]:
    del step_age_s
    return {"mean30": EXPERTS["mean30"].predict(counts, horizons_s, tuning=tuning)}


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
    "later": Part("a start-up takes a second more", later_s=1.0),
    "sooner": Part("a start-up takes a second less", later_s=-1.0),
    "forecast": Part(
        "the rate of the last half minute stays",
        instead={
            "forecast.forecaster.predict_all": _last_half_minute,
            "forecast.forecaster.season": lambda *_, **__: None,
            "forecast.forecaster.repeat": lambda *_, **__: None,
        },
    ),
    "season": Part("no sines", instead={"forecast.forecaster.season": lambda *_, **__: None}),
    "repeat": Part(
        "no period from hours of demand",
        instead={"forecast.forecaster.repeat": lambda *_, **__: None},
    ),
    "steps": Part("a jump is taken for a ramp", _with("forecast", step_windows_s=())),
    "look-ahead": Part("nothing beyond the start-up time", _with("forecast", look_ahead_s=0.0)),
    "proven": Part(
        "look-ahead counts whole where forecasts came true too",
        _with("forecast", proven_risk_share=1e-9),
    ),
    "errors": Part(
        "forecasts count as exact",
        instead={"forecast.forecaster._errors": lambda *_, **__: [0.0] * 5},
    ),
    "room": Part(
        "no room for traffic that is new and climbs", _with("forecast", young_room_share=0.0)
    ),
    "jump": Part("growth after a jump is confirmed too", _with("forecast", jump_news_s=-1)),
    "hasty": Part(
        "growth on a first climb is confirmed too",
        instead={"forecast.distribution.Forecast.hasty": property(attrgetter("jumped"))},
    ),
    "queueing": Part(
        "prefill is enough where its load is below one",
        instead={"sizing.prefill_lateness.Replay.late_share": _loaded},
    ),
    "hopeless": Part(
        "what no replica helps counts against the models",
        instead={"sizing.demand.Situation.violated_share": Situation.late_share},
    ),
    "decode-queue": Part(
        "decode is enough where its load is below one",
        instead={
            "sizing.decode_lateness.DecodeWork.late_share": _full,
            "sizing.router_credit.decode_excess": _full,
        },
    ),
    "burstiness": Part(
        "decode expects Poisson arrivals",
        instead={"sizing.arrival_sample._dispersion": lambda *_, **__: 1.0},
    ),
    "hits": Part("no prefix hits expected", _with("observe", most_cached_share=0.0)),
    "delivered": Part(
        "decode expects more than prefill hands over",
        instead={"sizing.replica_counts._delivered_rps": lambda *_, **__: 1e9},
    ),
    "price": Part(
        "lateness has no price: enough for the mean forecast alone",
        _with("learn", least_price_ratio=1e-9, most_price_ratio=1e-9),
    ),
    "inertia": Part(
        "a late stream costs as much as a late prompt", _with("sizing", decode_price_share=1.0)
    ),
    "feedback": Part(
        "the price does not follow measured attainment", _with("learn", price_rate_per_s=0.0)
    ),
    "slowdown": Part(
        "violations do not correct the models", _with("learn", slowdown_rate_per_s=0.0)
    ),
    "overhead": Part(
        "TTFT's part beside prefill is not learned",
        instead={"assessment.learn_overhead": lambda s, *_, **__: s},
    ),
    "urgent": Part(
        "violations demand no replicas at once",
        instead={"action.urgent_floors": lambda *_, **__: {}},
    ),
    "trend": Part(
        "output lengths are those of what ended",
        _with("learn", most_length_correction_share=0.0),
    ),
    "answers": Part("few answers count as many", _with("learn", enough_answers_requests=0)),
    "echoes": Part(
        "what ends late counts again", instead={"learn.correction.outcomes": _with_echoes}
    ),
    "confirm": Part("growth needs one tick, not two", _with("guard", confirm_s=0.0)),
    "small": Part(
        "growth for a small need does not wait",
        _with("guard", confirm_small_s=TUNING.guard.confirm_s),
    ),
    "headroom": Part(
        "a low that may be chance gives back",
        instead={"sizing.role_targets.headroom": lambda **_: 0.0},
    ),
    "doubt": Part(
        "what is known of 45 s is known as well", _with("sizing", seen_s=TUNING.sizing.early_s)
    ),
    "insurance": Part(
        "nothing is held for bursts that came",
        instead={"objective.promise.cover_for": _no_cover},
    ),
    "budget": Part(
        "the objective is planned for, whatever is left of its budget",
        instead={"objective.error_budget.ErrorBudget.allowed_late": _objective},
    ),
    "record": Part(
        "more than any burst needed may be held",
        instead={"objective.promise.most_of": lambda *_, **__: {}},
    ),
    "level": Part(
        "no fleet stays as it is on level traffic", _with("objective", level_dispersion_ratio=-1.0)
    ),
    "gross": Part("no single burst is insured against", _with("objective", gross_ratio=inf)),
    "new": Part("the first wave of a pool counts as a burst", _with("objective", new_s=0)),
    "loyalty": Part(
        "the cheapest insurance is taken each minute", _with("objective", loyalty_ratio=1.0)
    ),
    "usual": Part(
        "the past is played at the cost of this minute",
        instead={"objective.promise.as_usual": lambda work, _: work},
    ),
}
