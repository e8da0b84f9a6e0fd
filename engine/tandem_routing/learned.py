"""The knowledge of one router about its pool, and the expectation for a request."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from tandem_routing.deadline_queue import AtPod, Expected
from tandem_routing.estimates import MOST_MOVE, Mean, ServiceTime
from tandem_routing.history import prompt_bucket
from tandem_routing.time_shares import Stage, needed_s, to_first_token_s
from tandem_routing.verdict import Cause, Ending, Outcome, Verdict, blame

_DEFAULT_OUTPUT_TOKENS = 128.0
# One hiccup must not make overflow look hopeless: while it does, nothing more is learned of it.
_MOST_WHOLE_RATIO = 4.0
# Of nothing, a share of it is no way back.
_LEAST_KEPT = 0.05


@dataclass(slots=True)
class Learned:
    """The learned values of a router; `service` and `whole_ratio` are kept by revision.

    Attributes:
        output_tokens: of one answer.
        cached_ratio: the cached share of a prompt of which no pod should have had a part, by
            prompt bucket.
        kept_ratio: cached tokens over the tokens that the pods should have had.
        whole_ratio: time of a prompt at a decode pod over that at a prefill pod.
        usual: the TTFT parts of good requests, by prompt bucket.
    """

    service: dict[str, ServiceTime] = field(default_factory=lambda: defaultdict(ServiceTime))
    whole_ratio: dict[str, Mean] = field(
        default_factory=lambda: defaultdict(lambda: Mean(keep=0.9, value=1.0, most_move=MOST_MOVE))
    )
    cached_ratio: dict[int, Mean] = field(
        default_factory=lambda: defaultdict(lambda: Mean(value=0.0))
    )
    kept_ratio: Mean = field(default_factory=lambda: Mean(value=1.0, most_move=MOST_MOVE))
    newest_revision: str | None = None
    prefill_leg_s: Mean = field(default_factory=lambda: Mean(most_move=MOST_MOVE))
    decode_first_s: Mean = field(default_factory=lambda: Mean(most_move=MOST_MOVE))
    output_tokens: Mean = field(default_factory=lambda: Mean(most_move=MOST_MOVE))
    transfer_s: float | None = None
    usual: dict[int, dict[Cause, Mean]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(Mean))
    )

    def expected(
        self,
        prompt_tokens: int,
        *,
        output_tokens: int,
        streams: int = 1,
        held: Mapping[str, int] | None = None,
    ) -> Expected:
        """Return the expectation for a request, as far as known.

        `output_tokens` are those of all its `streams`. `held` has the prompt tokens that pods
        should have cached, by their names.
        """
        service_s = uncached_s = pass_s = ratio = model = None
        if self.newest_revision is not None:
            model = self.service[self.newest_revision]
            service_s = uncached_s = model.predict_s(uncached=prompt_tokens, cached=0)
            cached = round(
                prompt_tokens * (self.cached_ratio[prompt_bucket(prompt_tokens)].value or 0.0)
            )
            if cached:
                service_s = model.predict_s(uncached=prompt_tokens - cached, cached=cached)
            pass_s = model.predict_s(uncached=0, cached=0)
            ratio = self.whole_ratio[self.newest_revision].value
        near = self._near(model, prompt_tokens, held or {})
        if near:
            service_s = min(at.service_s for at in near.values())
        return Expected(
            service_s=service_s or 0.0,
            pass_s=pass_s or 0.0,
            # A decode pod has its own cache, of which little is known.
            whole_s=(uncached_s or 0.0) * (ratio or 1.0),
            rest_s=self.decode_first_s.value or 0.0,
            output_tokens=output_tokens,
            streams=streams,
            cold_s=uncached_s or 0.0,
            near=near,
        )

    def _near(
        self, model: ServiceTime | None, prompt_tokens: int, held: Mapping[str, int]
    ) -> dict[str, AtPod]:
        """Return the expectation at each pod that should have a part of the prompt.

        Its time is 0 as long as none is known: then its tokens alone count.
        """
        kept = min(1.0, self.kept_ratio.value or 0.0)
        near = {}
        for name, tokens in held.items():
            # An engine computes one token at least.
            cached = min(prompt_tokens - 1, round(kept * tokens))
            service_s = None
            if model is not None:
                service_s = model.predict_s(uncached=prompt_tokens - cached, cached=cached)
            if cached > 0:
                near[name] = AtPod(tokens, cached, service_s or 0.0)
        return near

    def needed_s(self, expected: Expected, *, stage: Stage, first_token_s: float) -> float:
        """Return the time to reserve for a request's first token, from a stage on."""
        expected_s = to_first_token_s(expected, stage=stage, prefill_leg_s=self.prefill_leg_s.value)
        return needed_s(expected_s, whole_s=first_token_s)

    def answer_tokens(self, *, stated_tokens: float | None) -> float:
        """Return the expected length of an answer; `stated_tokens` is the operator's figure."""
        return self.output_tokens.value or stated_tokens or _DEFAULT_OUTPUT_TOKENS

    def service_s(
        self, revision: str, *, prompt_tokens: int, cached_tokens: int | None
    ) -> float | None:
        """Return S(u) of a prompt, as learned from prefill pods of `revision`."""
        cached = cached_tokens or 0
        return self.service[revision].predict_s(uncached=prompt_tokens - cached, cached=cached)

    def prefilled(
        self, prompt_tokens: int, *, cached_tokens: int | None, held_tokens: int = 0
    ) -> None:
        """Learn how much of a prompt a prefill pod had cached; `None`: the pod does not report it.

        `held_tokens`: the tokens that it should have had cached.
        """
        if cached_tokens is None or prompt_tokens <= 0:
            return
        should = min(held_tokens, prompt_tokens)
        if should > 0:
            self.kept_ratio.add(max(_LEAST_KEPT, min(1.0, cached_tokens / should)))
        else:
            share = min(1.0, cached_tokens / prompt_tokens)
            self.cached_ratio[prompt_bucket(prompt_tokens)].add(share)

    def prefilled_alone(
        self, revision: str, *, prompt_tokens: int, cached_tokens: int | None, leg_s: float
    ) -> None:
        """Learn the time of a prompt that was alone on its prefill pod."""
        cached = cached_tokens or 0
        self.service[revision].learn(uncached=prompt_tokens - cached, cached=cached, leg_s=leg_s)
        self.newest_revision = revision

    def overflowed(self, revision: str, *, first_s: float, service_s: float | None) -> None:
        """Learn the time to first token of a request that a decode pod served whole."""
        if service_s:
            self.whole_ratio[revision].add(min(_MOST_WHOLE_RATIO, first_s / service_s))

    def ended(
        self,
        verdict: Verdict,
        ending: Ending,
        *,
        prompt_tokens: int,
        output_tokens: float,
        guaranteed: bool = True,
    ) -> Cause | None:
        """Learn from a request that ended, and return the cause of its violation.

        `output_tokens` are those of one of its answers. The TTFT parts of best effort are not
        learned, because it waits as long as it has to.
        """
        means = self.usual[prompt_bucket(prompt_tokens)]
        if verdict.outcome is not Outcome.GOOD:
            usual = {cause: mean.value for cause, mean in means.items() if mean.value is not None}
            return blame(verdict, ending, usual=usual)
        if verdict.ttft_s is not None:
            # What a request waited for that woke the pool is usual for none.
            is_usual = guaranteed and Cause.WAKE not in verdict.parts
            for part, value in verdict.parts.items() if is_usual else ():
                means[part].add(value)
            self.output_tokens.add(output_tokens)
        return None
