"""The speed of one engine replica: seconds of a prefill pass and of a decode step.

A prefill pass costs the time of its new tokens together, plus the attention of each prompt to
itself. The first part is read from the measured curve. The second part grows with the square of the
prompt.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

LEAST_STEP_S = 1e-6
JITTER_FACTORS = 1024


@dataclass(frozen=True, slots=True)
class Curve:
    """A function through measured points, in order of x."""

    points: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        if len(self.points) < 2 or any(a[0] >= b[0] for a, b in pairwise(self.points)):
            raise ValueError("a curve needs at least 2 points in rising order of x")

    def at(self, x: float) -> float:
        """Return the value at `x`; outside the points, the nearest line continues."""
        (x0, y0), (x1, y1) = self.segment(x)
        return y0 + (y1 - y0) * (x - x0) / (x1 - x0)

    def segment(self, x: float) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return the two points whose line holds at `x`."""
        index = bisect_right(self.points, (x, float("inf")))
        index = min(max(1, index), len(self.points) - 1)
        return self.points[index - 1], self.points[index]

    def bend(self) -> float:
        """Return the coefficient of x squared at the end of the curve.

        It follows from the points nearest to the last x, its half and its quarter. Nearer to zero a
        curve bends for other reasons, such as a floor that more tokens soon outgrow.
        """
        last = self.points[-1][0]
        chosen = {min(self.points, key=lambda p: abs(p[0] - last * s)) for s in (0.25, 0.5, 1.0)}
        if len(chosen) < 3:
            return 0.0
        (x0, y0), (x1, y1), (x2, y2) = sorted(chosen)
        return max(0.0, ((y2 - y1) / (x2 - x1) - (y1 - y0) / (x1 - x0)) / (x2 - x0))


@dataclass(frozen=True, slots=True)
class StepLine:
    """Step seconds of one batch size: `fixed_s + per_token_s * kv` up to `until_kv` tokens."""

    fixed_s: float
    per_token_s: float
    until_kv: float


@dataclass(frozen=True, slots=True)
class EngineProfile:
    """One replica's speed and limits.

    Attributes:
        prefill: seconds to prefill one prompt alone, by its tokens.
        steps: per context length, seconds of a decode step by batch size.
        transfer_s, transfer_s_per_token: KV transfer between two pods.
        kv_bytes_per_token: bytes of one token in the KV cache; `None`: not known.
        jitter: sigma of the lognormal noise on every pass and step; zero: none.
        attention_s_per_token2: time of attention between new tokens, by their number squared, as
            passes of several prompts show it; `None`: that of long prompts, from the curve's end.
        attention_by_mean: whether a pass counts as so many prompts of its mean length, as in
            NVIDIA's replay, and not prompt by prompt.
    """

    name: str
    prefill: Curve
    steps: tuple[tuple[float, Curve], ...]
    kv_capacity_tokens: int
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8192
    transfer_s: float = 0.002
    transfer_s_per_token: float = 5e-7
    kv_bytes_per_token: float | None = None
    jitter: float = 0.0
    attention_s_per_token2: float | None = None
    attention_by_mean: bool = False
    _bend: float = field(default=0.0, init=False, repr=False, compare=False)
    _own_bend: float = field(default=0.0, init=False, repr=False, compare=False)
    _flat: Curve = field(init=False, repr=False, compare=False)
    _lines: dict[int, tuple[StepLine, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        if not self.steps or any(a[0] >= b[0] for a, b in pairwise(self.steps)):
            raise ValueError("a profile needs decode steps in rising order of context length")
        if self.kv_capacity_tokens < 1:
            raise ValueError("a profile needs a KV capacity of at least 1 token")
        bend, given = self.prefill.bend(), self.attention_s_per_token2
        own = bend if given is None else given
        flat = Curve(tuple((x, y - own * x * x) for x, y in self.prefill.points))
        object.__setattr__(self, "_bend", bend)
        object.__setattr__(self, "_own_bend", own)
        object.__setattr__(self, "_flat", flat)

    def work_s(self, tokens: float) -> float:
        """Return the time of a pass over `tokens` new tokens, without attention among them."""
        return max(0.0, self._flat.at(tokens))

    def attention_s(self, context: float, tokens: float) -> float:
        """Return the attention time of `tokens` new tokens to themselves and their `context`."""
        return tokens * (2.0 * self._bend * context + self._own_bend * tokens)

    def pass_s(self, parts: Sequence[tuple[float, float]]) -> float:
        """Return the time of a pass over parts of prompts: of each, its done and its new tokens."""
        tokens = sum(new for _, new in parts)
        if self.attention_by_mean:
            count = len(parts)
            done = sum(context for context, _ in parts)
            attention_s = count * self.attention_s(done / count, tokens / count)
        else:
            attention_s = sum(self.attention_s(context, new) for context, new in parts)
        return self.work_s(tokens) + attention_s

    def service_s(self, prompt_tokens: float, cached_tokens: float = 0) -> float:
        """Return the seconds of one prompt on an idle replica that has `cached_tokens` of it."""
        total_s, done = 0.0, cached_tokens
        while done < prompt_tokens:
            chunk = min(self.max_num_batched_tokens, prompt_tokens - done)
            total_s += self.pass_s([(done, chunk)])
            done += chunk
        return total_s

    def handover_s(self, prompt_tokens: int) -> float:
        """Return the seconds that move a prompt's KV from one pod to another."""
        return self.transfer_s + self.transfer_s_per_token * prompt_tokens

    def handover_gb_per_s(self) -> float | None:
        """Return the speed of long transfers; `None` if a token's bytes are not known."""
        if self.kv_bytes_per_token is None or self.transfer_s_per_token <= 0.0:
            return None
        return self.kv_bytes_per_token / self.transfer_s_per_token / 1e9

    def step_s(self, batch: int, kv_tokens: float) -> float:
        """Return the seconds of one decode step."""
        line = self.line(batch, kv_tokens)
        return line.fixed_s + line.per_token_s * kv_tokens

    def line(self, batch: int, kv_tokens: float) -> StepLine:
        """Return the straight piece of step time that holds at `kv_tokens` for this batch size."""
        lines = self._lines.get(batch)
        if lines is None:
            lines = self._lines[batch] = self._lines_of(batch)
        for line in lines:
            if kv_tokens < line.until_kv:
                return line
        return lines[-1]

    def _lines_of(self, batch: int) -> tuple[StepLine, ...]:
        knots = [(c * batch, max(LEAST_STEP_S, curve.at(batch))) for c, curve in self.steps]
        if len(knots) == 1:
            return (StepLine(knots[0][1], 0.0, float("inf")),)
        lines = []
        for (k0, y0), (k1, y1) in pairwise(knots):
            # Noise may make a longer context look quicker. A simulation that used it would become
            # faster with a fuller cache.
            slope = max(0.0, (y1 - y0) / (k1 - k0))
            lines.append(StepLine(max(LEAST_STEP_S, y0 - slope * k0), slope, k1))
        lines[-1] = StepLine(lines[-1].fixed_s, lines[-1].per_token_s, float("inf"))
        return tuple(lines)

    def largest_batch(self, tpot_s: float, context_tokens: float) -> int:
        """Return the largest batch whose step keeps `tpot_s` and whose KV fits; at least one."""
        most = min(self.max_num_seqs, int(self.kv_capacity_tokens / max(1.0, context_tokens)))
        batches = range(1, max(1, most) + 1)
        # Noise again: the first batch that breaks the bound ends the search.
        best = 1
        for batch in batches:
            if self.step_s(batch, batch * context_tokens) > tpot_s:
                break
            best = batch
        return best


def straight_profile(
    name: str,
    *,
    prefill: tuple[float, float],
    step: tuple[float, float, float],
    kv_capacity_tokens: int,
    max_num_seqs: int = 256,
    max_num_batched_tokens: int = 8192,
) -> EngineProfile:
    """Return a profile of straight lines: prefill a0 + a1 u, step d0 + d1 b + d2 K."""
    a0, a1 = prefill
    d0, d1, d2 = step
    steps = tuple(
        (context, Curve(tuple((b, d0 + d1 * b + d2 * b * context) for b in (0.0, 256.0))))
        for context in (1.0, 100_000.0)
    )
    return EngineProfile(
        name=name,
        prefill=Curve(((0.0, a0), (10_000.0, a0 + a1 * 10_000.0))),
        steps=steps,
        kv_capacity_tokens=kv_capacity_tokens,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
    )


def jitter_factors(profile: EngineProfile, seed: str) -> tuple[float, ...]:
    """Return factors on one pod's passes and steps, used in turn; their number is a power of two.

    A step's factor depends only on its number. So a pod runs the same however often it is looked
    at.
    """
    if profile.jitter <= 0.0:
        return (1.0,)
    random = Random(seed)
    return tuple(random.lognormvariate(0.0, profile.jitter) for _ in range(JITTER_FACTORS))


def rising(points: Sequence[tuple[float, float]]) -> Curve:
    """Return a curve through points in any order; of equal x, the last counts."""
    return Curve(tuple(sorted(dict(points).items())))
