"""Turn the running totals of engines and routers into rows for the learned models.

Totals restart with their process. A total that fell starts a new baseline and gives no row. A row
closes only with enough requests or time: a request that is half inside an interval is noise at its
edges, and longer rows have fewer edges.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tandem_operator.core.learn.engine_models import EngineModels, newest
from tandem_operator.core.learn.priors import prior_of
from tandem_operator.core.observation import EngineSample, Leg, Observation
from tandem_operator.core.role import Role
from tandem_operator.core.tuning.tuning import TUNING, Tuning

# Number of revisions that a memory holds.
KEPT_REVISIONS = 4


@dataclass(frozen=True, slots=True)
class LegStart:
    """One leg's totals at the start of its open row."""

    at_s: float
    busy_s: float
    requests: int
    tokens: int
    token_contexts: float


@dataclass(frozen=True, slots=True)
class StepStart:
    """One decode engine's totals at the start of its open row."""

    at_s: float
    itl_sum_s: float
    itl_count: float
    kv_tokens: float | None


@dataclass(frozen=True, slots=True)
class LearnedEngines:
    """All models by revision, and the baselines of the open rows."""

    engines: Mapping[str, EngineModels] = field(default_factory=dict)
    legs: Mapping[str, LegStart] = field(default_factory=dict)
    steps: Mapping[str, StepStart] = field(default_factory=dict)

    def of(self, revision: str | None) -> EngineModels:
        """Return the models of `revision`; before its first measurement, those measured last."""
        if revision is not None and revision in self.engines:
            known = self.engines[revision]
            if known.service.known or known.step.known:
                return known
        latest = newest(self.engines)
        return EngineModels() if latest is None else self.engines[latest]


def learn(
    learned: LearnedEngines,
    observation: Observation,
    *,
    max_num_seqs: int,
    tuning: Tuning = TUNING,
) -> LearnedEngines:
    """Return the models after one more observation of engines with this limit of sequences."""
    revisions = {pod.name: pod.revision for pod in observation.pods}
    engines = dict(learned.engines)
    _learn_start_ups(observation.engines, revisions, engines, tuning=tuning)
    legs = _learn_service(learned, observation, revisions, engines, tuning=tuning)
    steps = _learn_steps(learned, observation, revisions, engines, max_num_seqs, tuning=tuning)
    kept = sorted(engines, key=lambda name: (engines[name].seen_s, name))[-KEPT_REVISIONS:]
    return LearnedEngines(
        engines={name: engines[name] for name in sorted(kept)}, legs=legs, steps=steps
    )


def _models(
    engines: Mapping[str, EngineModels], revision: str, *, tuning: Tuning = TUNING
) -> EngineModels:
    """Return the revision's models; a new revision begins with those of the latest one."""
    if revision in engines:
        return engines[revision]
    latest = newest(engines)
    return EngineModels() if latest is None else engines[latest].inherited(tuning=tuning)


def _learn_start_ups(
    samples: Iterable[EngineSample],
    revisions: Mapping[str, str],
    engines: dict[str, EngineModels],
    *,
    tuning: Tuning = TUNING,
) -> None:
    for sample in sorted(samples, key=lambda s: s.pod):
        revision = revisions.get(sample.pod)
        if revision is None or sample.start_up is None:
            continue
        models = _models(engines, revision, tuning=tuning)
        if sample.role in models.told_by:
            continue
        prior = prior_of(sample.start_up, tuning=tuning)
        updated = models.with_start_up(sample.role, sample.start_up, prior, tuning=tuning)
        if updated is not models:
            engines[revision] = replace(updated, seen_s=max(models.seen_s, sample.sampled_s))


def _learn_service(
    learned: LearnedEngines,
    observation: Observation,
    revisions: Mapping[str, str],
    engines: dict[str, EngineModels],
    *,
    tuning: Tuning = TUNING,
) -> dict[str, LegStart]:
    now: dict[str, dict[str, LegStart]] = {}
    for report in observation.routers:
        for leg in report.legs:
            if leg.role is Role.PREFILL and leg.pod in revisions:
                key = f"{report.router} {leg.pod}"
                now.setdefault(leg.pod, {})[key] = _leg_start(leg, report.sampled_s)
    starts: dict[str, LegStart] = {}
    among = Counter(revisions[pod] for pod in now)
    for pod in sorted(now):
        row = _ServiceRow.between(learned.legs, now[pod], tuning=tuning)
        if row is None or row.stale:
            starts.update(now[pod])
        elif row.closed:
            starts.update(now[pod])
            models = _models(engines, revisions[pod], tuning=tuning)
            service = models.service.learn(
                busy_s=row.busy_s,
                requests=row.requests,
                tokens=row.tokens,
                token_contexts=row.token_contexts,
                full=tuning.learn.full_row_requests,
                among=among[revisions[pod]],
                tuning=tuning,
            )
            seen_s = max(start.at_s for start in now[pod].values())
            engines[revisions[pod]] = replace(models, service=service, seen_s=seen_s)
        else:
            starts.update({key: learned.legs[key] for key in now[pod]})
    return starts


def _leg_start(leg: Leg, at_s: float) -> LegStart:
    return LegStart(
        at_s=at_s,
        busy_s=leg.busy_s,
        requests=leg.requests,
        tokens=max(0, leg.prompt_tokens - leg.cached_tokens),
        token_contexts=leg.prompt_token_contexts,
    )


@dataclass(frozen=True, slots=True)
class _ServiceRow:
    """The work of one pod since its open row began, over all routers that send to it."""

    elapsed_s: float
    busy_s: float
    requests: int
    tokens: int
    token_contexts: float
    tuning: Tuning = TUNING

    @property
    def closed(self) -> bool:
        row = self.tuning.learn
        old = self.elapsed_s >= row.row_s and self.requests > 0
        return (self.requests >= row.row_requests or old) and self.busy_s > 0.0

    @property
    def stale(self) -> bool:
        # After a long idle time, earlier requests would count in the next row.
        return self.elapsed_s > self.tuning.learn.stale_row_s

    @staticmethod
    def between(
        before: Mapping[str, LegStart], now: Mapping[str, LegStart], *, tuning: Tuning = TUNING
    ) -> "_ServiceRow | None":
        """Return the difference, or `None` if a total is new or fell."""
        idle_share, elapsed_s = 1.0, 0.0
        requests, tokens, contexts = 0, 0, 0.0
        for key, end in now.items():
            start = before.get(key)
            if start is None or _fell(start, end):
                return None
            span_s = end.at_s - start.at_s
            if span_s <= 0.0:
                continue
            elapsed_s = max(elapsed_s, span_s)
            # Each router sees only its own requests; the pod is idle if it is idle for all of them.
            idle_share *= 1.0 - min(1.0, (end.busy_s - start.busy_s) / span_s)
            requests += end.requests - start.requests
            tokens += end.tokens - start.tokens
            contexts += end.token_contexts - start.token_contexts
        return _ServiceRow(
            elapsed_s=elapsed_s,
            busy_s=elapsed_s * (1.0 - idle_share),
            requests=requests,
            tokens=tokens,
            token_contexts=contexts,
            tuning=tuning,
        )


def _fell(start: LegStart, end: LegStart) -> bool:
    return (
        end.busy_s < start.busy_s
        or end.requests < start.requests
        or end.tokens < start.tokens
        or end.token_contexts < start.token_contexts
        or end.at_s < start.at_s
    )


def _learn_steps(
    learned: LearnedEngines,
    observation: Observation,
    revisions: Mapping[str, str],
    engines: dict[str, EngineModels],
    max_num_seqs: int,
    *,
    tuning: Tuning = TUNING,
) -> dict[str, StepStart]:
    row = tuning.learn
    starts: dict[str, StepStart] = {}
    samples = _decode_samples(observation.engines)
    among = Counter(revisions.get(sample.pod) for sample in samples)
    for sample in samples:
        revision = revisions.get(sample.pod)
        if revision is None:
            continue
        models = _models(engines, revision, tuning=tuning)
        if sample.kv_capacity_tokens:
            models = replace(models, kv_capacity_tokens=sample.kv_capacity_tokens)
            engines[revision] = models
        if sample.itl_sum_s is None or sample.itl_count is None:
            continue
        end = StepStart(sample.sampled_s, sample.itl_sum_s, sample.itl_count, _kv_tokens(sample))
        start = learned.steps.get(sample.pod)
        if start is None or _restarted(start, end):
            starts[sample.pod] = end
            continue
        span_s, tokens = end.at_s - start.at_s, end.itl_count - start.itl_count
        if span_s > row.stale_row_s:
            starts[sample.pod] = end
        elif span_s > 0.0 and (tokens >= row.row_tokens or (span_s >= row.row_s and tokens > 0.0)):
            starts[sample.pod] = end
            engines[revision] = _learn_step(
                models, start, end, max_num_seqs, among=among[revision], tuning=tuning
            )
        else:
            starts[sample.pod] = start
    return starts


def _restarted(start: StepStart, end: StepStart) -> bool:
    # If a clock was set back, an hour's tokens would count as those of a second.
    return (
        end.itl_sum_s < start.itl_sum_s or end.itl_count < start.itl_count or end.at_s < start.at_s
    )


def _decode_samples(samples: Iterable[EngineSample]) -> list[EngineSample]:
    return sorted((s for s in samples if s.role is Role.DECODE), key=lambda s: s.pod)


def _kv_tokens(sample: EngineSample) -> float | None:
    if sample.kv_usage_ratio is None or sample.kv_capacity_tokens is None:
        return None
    return sample.kv_usage_ratio * sample.kv_capacity_tokens


def _learn_step(
    models: EngineModels,
    start: StepStart,
    end: StepStart,
    max_num_seqs: int,
    *,
    among: int,
    tuning: Tuning = TUNING,
) -> EngineModels:
    span_s, tokens = end.at_s - start.at_s, end.itl_count - start.itl_count
    waited_s = end.itl_sum_s - start.itl_sum_s
    # More streams than an engine runs at once: these are not its totals, so they are not used.
    if not 0.0 < waited_s <= tuning.learn.fuller_than_full_ratio * max_num_seqs * span_s:
        return models
    ends = [k for k in (start.kv_tokens, end.kv_tokens) if k is not None]
    step = models.step.learn(
        itl_s=waited_s / tokens,
        # Every running stream adds one second of gaps per second: the mean batch of the interval.
        batch=waited_s / span_s,
        kv_tokens=sum(ends) / len(ends) if ends else 0.0,
        weight=min(1.0, tokens / tuning.learn.full_row_tokens),
        among=among,
        tuning=tuning,
    )
    return replace(models, step=step, seen_s=end.at_s)
