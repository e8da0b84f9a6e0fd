"""The first steps of a decision: observe, learn, forecast, and find the demand."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tandem_operator.core.forecast.backtest import Track
from tandem_operator.core.forecast.distribution import Forecast
from tandem_operator.core.forecast.forecaster import forecast
from tandem_operator.core.learn.correction import Correction, correct, see_ready
from tandem_operator.core.learn.engine_models import EngineModels
from tandem_operator.core.learn.measurements import LearnedEngines, learn
from tandem_operator.core.learn.output_lengths import Outputs, output_lengths
from tandem_operator.core.memory import Memory
from tandem_operator.core.observation import Observation
from tandem_operator.core.observe.arrivals import WAKE, Arrivals, Outcomes, merge, outcomes
from tandem_operator.core.observe.freshness import Freshness, freshness, usable
from tandem_operator.core.observe.role_pods import RolePods, Starts, fleet
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.decode_speed import TimedDecodePace, pace_to_tell
from tandem_operator.core.sizing.demand import (
    Situation,
    assess,
    backlog_of,
    first_overhead_s,
    learn_overhead,
)
from tandem_operator.core.sizing.router_credit import insured
from tandem_operator.core.spec import PoolSpec
from tandem_operator.core.tuning.tuning import TUNING, Tuning

TICK_S = 5.0


@dataclass(frozen=True, slots=True)
class Observed:
    """The usable part of an observation, and the age of the last look.

    Attributes:
        observation: without impossible samples.
        step_s: time since the last look, 0 at the first.
        lead_s: time from a decision until a new pod serves, by role.
        minute: requests that ended in the last minute.
    """

    observation: Observation
    now_s: float
    step_s: float
    fresh: Freshness
    starts: Starts
    lead_s: Mapping[Role, float]
    fleets: Mapping[Role, RolePods]
    arrivals: Arrivals
    minute: Outcomes

    @property
    def ready(self) -> dict[Role, int]:
        """Return the pods that serve, by role."""
        return {role: len(each.ready) for role, each in self.fleets.items()}

    def slowest_lead_s(self, *, tuning: Tuning = TUNING) -> float:
        """Return the time from a decision until nearly all new pods of both roles serve.

        One tick is the wait for the next decision. A second one is for what no start contains:
        writes of the count, and Kubernetes' own delay until it makes the pods.
        """
        share, unmeasured_s = tuning.guard.schedule_start_share, tuning.observe.unmeasured_start_s
        slowest_s = max(self.starts.quantile_s(role, share) or unmeasured_s for role in Role)
        return 2 * TICK_S + tuning.guard.schedule_start_ratio * slowest_s


def observe(
    observation: Observation, memory: Memory, now_s: float, *, tuning: Tuning = TUNING
) -> Observed:
    """Drop impossible samples, and combine the reports of several routers and pods."""
    valid = usable(observation, now_s, tuning=tuning)
    starts = memory.starts.learn(valid.pods, last_look_s=memory.at_s, tuning=tuning)
    since_s = 0.0 if memory.at_s is None else now_s - memory.at_s
    return Observed(
        observation=valid,
        now_s=now_s,
        step_s=min(tuning.observe.longest_step_s, max(0.0, since_s)),
        fresh=freshness(valid, now_s, tuning=tuning),
        starts=starts,
        lead_s={role: TICK_S + starts.expected_s(role, tuning=tuning) for role in Role},
        fleets={role: fleet(valid, role, starts, now_s, tuning=tuning) for role in Role},
        arrivals=merge(
            valid.routers, expected=valid.router_pods, turned_away=valid.turned_away, tuning=tuning
        ),
        minute=outcomes(valid.routers, window_s=tuning.learn.recent_ended_s),
    )


@dataclass(frozen=True, slots=True)
class Taught:
    """The learned models of engines and requests.

    Attributes:
        models: those of the revision that decodes now.
        settled: roles whose fleet is old enough to be judged by its violations.
    """

    learned: LearnedEngines
    models: EngineModels
    outputs: Outputs | None
    correction: Correction
    settled: frozenset[Role]


def study(spec: PoolSpec, seen: Observed, memory: Memory, *, tuning: Tuning = TUNING) -> Taught:
    """Learn from measured times, and from violations that the models did not expect."""
    observation = seen.observation
    learned = learn(memory.learned, observation, max_num_seqs=spec.max_num_seqs, tuning=tuning)
    latency = observation.latency
    correction = correct(
        see_ready(memory.correction, seen.ready, seen.now_s),
        minute=seen.minute,
        longer=outcomes(observation.routers, window_s=tuning.learn.longer_ended_s),
        attainment=spec.slo.attainment,
        step_s=seen.step_s,
        now_s=seen.now_s,
        tuning=tuning,
    )
    fleets = seen.fleets
    return Taught(
        learned=learned,
        models=learned.of(fleets[Role.DECODE].revision or fleets[Role.PREFILL].revision),
        outputs=output_lengths(
            observation.routers,
            memory.outputs,
            counts=seen.arrivals.counts,
            token_s=None if latency is None else latency.tpot.p50_s,
            step_s=seen.step_s,
            tuning=tuning,
        ),
        correction=correction,
        settled=frozenset(
            role for role in Role if correction.settled(role, seen.now_s, tuning=tuning)
        ),
    )


@dataclass(frozen=True, slots=True)
class Ahead:
    """The forecast for `lead_s` and a minute more; `expected` is `None` while unknown."""

    lead_s: float
    expected: Forecast | None
    track: Track


def foresee(seen: Observed, memory: Memory, *, tuning: Tuning = TUNING) -> Ahead:
    """Forecast the arrivals over the longer of both start-up times."""
    lead_s = max(seen.lead_s.values())
    expected, track = forecast(
        memory.track,
        seen.arrivals,
        lead_s=lead_s,
        now_s=seen.now_s,
        history=memory.promise.history,
        tuning=tuning,
    )
    proven = None if expected is None else expected.proven()
    return Ahead(lead_s=lead_s, expected=proven, track=track)


@dataclass(frozen=True, slots=True)
class Sized:
    """The demand of the present requests.

    Attributes:
        situation: `None` while too little is known.
        overhead_s: the part of TTFT that prefill replicas cannot change, once it was measured.
        correction: with the late shares that the models expect now.
    """

    situation: Situation | None
    pace: TimedDecodePace | None
    rate_rps: float
    overhead_s: float | None
    correction: Correction


def size(
    spec: PoolSpec,
    seen: Observed,
    taught: Taught,
    ahead: Ahead,
    memory: Memory,
    *,
    tuning: Tuning = TUNING,
) -> Sized:
    """Combine the models and the arrivals into the demand of each role."""
    observation, models, correction = seen.observation, taught.models, taught.correction
    overhead_s = memory.overhead_s
    if overhead_s is None:
        overhead_s = first_overhead_s(models, observation.engines, tuning=tuning)
    # Before any step was timed, no served request was transferred: the overhead is guessed again.
    lasting = memory.overhead_s is not None or models.step.line.measured
    situation = insured(
        spec.insurance,
        assess(
            spec,
            seen.arrivals,
            models=models,
            outputs=taught.outputs,
            correction=correction,
            overhead_s=overhead_s,
            backlog=backlog_of(
                observation.routers, clear_s=ahead.lead_s + tuning.forecast.look_ahead_s
            ),
            caches_moving=correction.lost_caches(seen.now_s, tuning=tuning),
            tuning=tuning,
        ),
        tuning=tuning,
    )
    rate_rps = seen.arrivals.rate_rps(tuning.observe.rate_window_s) or 0.0
    ready = seen.ready
    if situation is not None:
        if lasting:
            overhead_s = learn_overhead(
                overhead_s,
                situation,
                observation.latency,
                rate_rps=rate_rps,
                ready=ready,
                settled=len(taught.settled) == len(Role)
                and not (spec.may_sleep and _woke_lately(seen, tuning=tuning)),
                slo_ttft_s=spec.slo.ttft_s,
                tuning=tuning,
            )
        late = {role: situation.violated_share(role, rate_rps, ready[role]) for role in Role}
        correction = replace(correction, expected_late=late)
    return Sized(
        situation=situation,
        pace=pace_to_tell(
            memory.pace,
            situation,
            max_num_seqs=spec.max_num_seqs,
            now_s=seen.now_s,
            tuning=tuning,
        ),
        rate_rps=rate_rps,
        overhead_s=overhead_s if lasting else None,
        correction=correction,
    )


def _woke_lately(seen: Observed, *, tuning: Tuning = TUNING) -> bool:
    """Return whether the present latencies may include waits for a pool at zero."""
    window_s = tuning.learn.longer_ended_s
    return WAKE in outcomes(seen.observation.routers, window_s=window_s).blame


@dataclass(frozen=True, slots=True)
class Assessment:
    """The results of the first steps, before any count is chosen."""

    seen: Observed
    taught: Taught
    ahead: Ahead
    sized: Sized
