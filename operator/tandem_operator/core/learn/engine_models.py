"""The models of one revision's engines: prefill service time, decode step time, KV capacity."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tandem_operator.core.learn.first_estimates import FirstEstimate, Pair, first_estimate, through
from tandem_operator.core.learn.least_squares import Line, Triple, dot
from tandem_operator.core.learn.roofline import Prior
from tandem_operator.core.observation import StartUp
from tandem_operator.core.role import Role
from tandem_operator.core.tuning.tuning import TUNING, Tuning


@dataclass(frozen=True, slots=True)
class ServiceModel:
    """Prefill busy seconds: a0 per request + a1 per uncached token + a2 per token and context.

    Before enough measurements, the model is the engine's own measurement before it was Ready. The
    prior keeps those proportions, at the level of the pool's own mean cost. Without an own
    measurement, nearly all of the mean cost belongs to tokens.

    Attributes:
        first: seconds per request, per token, and per token and context before any traffic.
    """

    line: Line = field(default_factory=Line)
    mean_busy_s: float = 0.0
    mean_requests: float = 0.0
    mean_tokens: float = 0.0
    mean_token_contexts: float = 0.0
    first: FirstEstimate | None = None

    @property
    def known(self) -> bool:
        """Return whether enough was measured, at least by the engine itself, to size with."""
        return self.line.measured or self.first is not None

    def prior(self, *, tuning: Tuning = TUNING) -> Triple:
        """Return coefficients that explain only the mean, in the proportions of the engine."""
        if self.mean_requests <= 0.0:
            return (0.0, 0.0, 0.0)
        if self.first is not None:
            fixed, slope = self.first.fixed_s, self.first.slope_s
            if self.mean_tokens > 0.0 and self.first.third_s is not None:
                # The contexts of one pool differ little: their cost belongs to the tokens.
                slope += self.first.third_s * self.mean_token_contexts / self.mean_tokens
            alone_s = fixed * self.mean_requests + slope * self.mean_tokens
            level = self.mean_busy_s / alone_s if alone_s > 0.0 else 0.0
            return (level * fixed, level * slope, 0.0)
        per_request = self.mean_busy_s / self.mean_requests
        if self.mean_tokens <= 0.0:
            return (per_request, 0.0, 0.0)
        per_token = self.mean_busy_s / self.mean_tokens
        share = tuning.learn.prior_fixed_share
        return (share * per_request, (1.0 - share) * per_token, 0.0)

    def coefficients(self, *, tuning: Tuning = TUNING) -> Triple:
        """Return (a0, a1, a2), all >= 0."""
        if self.first is not None and not self.line.measured:
            return (self.first.fixed_s, self.first.slope_s, self.first.third_s or 0.0)
        return self.line.coefficients(self.prior(tuning=tuning), tuning=tuning)

    def with_start_up(
        self, measured: Pair | None, prior: Triple | None, *, tuning: Tuning = TUNING
    ) -> "ServiceModel":
        """Return the model with an engine's own measurement; learned values are scaled by it."""
        first = first_estimate(self.first, measured, prior, as_=1)
        if first is None or first is self.first:
            return self
        ratio = first.ratio(self.first, at=(self.mean_requests, self.mean_tokens))
        return replace(self, line=self.line.scaled(ratio, tuning=tuning), first=first)

    def learn(
        self,
        *,
        busy_s: float,
        requests: float,
        tokens: float,
        token_contexts: float,
        full: float,
        among: int = 1,
        tuning: Tuning = TUNING,
    ) -> "ServiceModel":
        """Return the model after a pod was busy for `busy_s`; `full` requests make a full row."""
        keep = tuning.learn.mean_keep_share
        mean = replace(
            self,
            mean_busy_s=self.mean_busy_s * keep + busy_s,
            mean_requests=self.mean_requests * keep + requests,
            mean_tokens=self.mean_tokens * keep + tokens,
            mean_token_contexts=self.mean_token_contexts * keep + token_contexts,
        )
        line = self.line.learn(
            (requests, tokens, token_contexts),
            busy_s,
            prior=mean.prior(tuning=tuning),
            weight=min(1.0, requests / full),
            among=among,
            tuning=tuning,
        )
        return replace(mean, line=line)


@dataclass(frozen=True, slots=True)
class StepModel:
    """Decode step seconds (ITL): d0 + d1 per running request + d2 per resident KV token.

    Attributes:
        first: seconds per step, per stream and per token in the cache before any traffic.
    """

    line: Line = field(default_factory=Line)
    mean_itl_s: float = 0.0
    mean_batch: float = 0.0
    mean_kv_tokens: float = 0.0
    first: FirstEstimate | None = None

    @property
    def known(self) -> bool:
        """Return whether enough was measured, at least by the engine itself, to size with."""
        return self.line.measured or self.first is not None

    def prior(self, *, tuning: Tuning = TUNING) -> Triple:
        """Return the measured mean, divided between weights, streams and caches."""
        slope = self._slope_share(self.mean_batch, tuning=tuning)
        fixed = self.mean_itl_s / (1.0 + slope * self.mean_batch)
        return (fixed, slope * fixed, 0.0)

    def _slope_share(self, batch: float, *, tuning: Tuning = TUNING) -> float:
        """Return the time that a stream adds to a step, as a share of a step without streams.

        Only the engine can measure the cost of a stream itself. The cost of its cache follows the
        memory traffic.
        """
        kv_tokens = self.mean_kv_tokens or tuning.learn.prior_context_tokens * batch
        share = self._token_share(tuning=tuning) * kv_tokens / max(1.0, batch)
        return share if self.first is None else share + self.first.slope_s / self.first.fixed_s

    def _token_share(self, *, tuning: Tuning = TUNING) -> float:
        if self.first is None or self.first.third_s is None:
            return tuning.learn.prior_token_share
        return self.first.third_s / self.first.fixed_s

    def coefficients(self, *, tuning: Tuning = TUNING) -> Triple:
        """Return (d0, d1, d2), all >= 0."""
        if self.first is not None and not self.line.measured:
            fixed = self.first.fixed_s
            return (fixed, self.first.slope_s, fixed * self._token_share(tuning=tuning))
        return self.line.coefficients(self.prior(tuning=tuning), tuning=tuning)

    def with_start_up(
        self, measured: Pair | None, prior: Triple | None, *, tuning: Tuning = TUNING
    ) -> "StepModel":
        """Return the model with an engine's own measurement; learned values are scaled by it."""
        first = first_estimate(self.first, measured, prior, as_=0)
        if first is None or first is self.first:
            return self
        ratio = first.ratio(self.first, at=(1.0, self.mean_batch))
        return replace(self, line=self.line.scaled(ratio, tuning=tuning), first=first)

    def itl_s(self, *, batch: float, kv_tokens: float, tuning: Tuning = TUNING) -> float:
        """Return the predicted gap between two tokens of one stream."""
        return dot(self.coefficients(tuning=tuning), (1.0, batch, kv_tokens))

    def learn(
        self,
        *,
        itl_s: float,
        batch: float,
        kv_tokens: float,
        weight: float,
        among: int = 1,
        tuning: Tuning = TUNING,
    ) -> "StepModel":
        """Return the model after one interval of one pod."""
        share = 1.0 - tuning.learn.mean_keep_share
        if self.line.rows:
            mean_itl_s = self.mean_itl_s + share * (itl_s - self.mean_itl_s)
            mean_batch = self.mean_batch + share * (batch - self.mean_batch)
        else:
            mean_itl_s, mean_batch = itl_s, batch
        # Caches may be seen later than steps: the mean starts with the first values seen.
        mean_kv_tokens = self.mean_kv_tokens or kv_tokens
        mean_kv_tokens += share * (kv_tokens - mean_kv_tokens)
        mean = replace(
            self, mean_itl_s=mean_itl_s, mean_batch=mean_batch, mean_kv_tokens=mean_kv_tokens
        )
        line = self.line.learn(
            (1.0, batch, kv_tokens),
            itl_s,
            prior=mean.prior(tuning=tuning),
            weight=weight,
            among=among,
            tuning=tuning,
        )
        return replace(mean, line=line)


@dataclass(frozen=True, slots=True)
class EngineModels:
    """The learned models of one pod template hash."""

    service: ServiceModel = field(default_factory=ServiceModel)
    step: StepModel = field(default_factory=StepModel)
    kv_capacity_tokens: float | None = None
    seen_s: float = 0.0
    """Time of its last measurement, in epoch seconds."""
    told_by: tuple[Role, ...] = ()
    """Roles of which an engine has reported its own measurement."""

    def inherited(self, *, tuning: Tuning = TUNING) -> "EngineModels":
        """Return the first guess for the next revision: most rollouts change little."""
        return EngineModels(
            service=replace(self.service, line=self.service.line.inherited(tuning=tuning)),
            step=replace(self.step, line=self.step.line.inherited(tuning=tuning)),
        )

    def with_start_up(
        self,
        role: Role,
        start_up: StartUp,
        prior: Prior | None = None,
        *,
        tuning: Tuning = TUNING,
    ) -> "EngineModels":
        """Return the models with the own measurement of an engine of this role and revision.

        `prior` is the expected cost by its model and hardware. If a measurement adds nothing, the
        next engine is heard.
        """
        prefill, steps = through(start_up.prefill), through(start_up.steps)
        if steps is not None and steps[0] <= 0.0:
            # A step without a fixed part is chance, and would allow any batch.
            steps = None
        service = self.service.with_start_up(
            prefill, None if prior is None else prior.service, tuning=tuning
        )
        step = self.step.with_start_up(steps, None if prior is None else prior.step, tuning=tuning)
        if service is self.service and step is self.step:
            return self
        heard = prefill is not None or steps is not None
        told_by = (*self.told_by, role) if heard else self.told_by
        return replace(self, service=service, step=step, told_by=told_by)


def newest(models: Mapping[str, EngineModels]) -> str | None:
    """Return the models of the last measured revision, the best guess for an unmeasured one."""
    return max(models, key=lambda name: (models[name].seen_s, name), default=None)
