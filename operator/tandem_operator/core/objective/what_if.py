"""Play a demand history again under other fleets: who would have been late, and at what cost?

A role is ready with what the forecast alone wanted one start-up time ago, kept for a while, and
never with less than a floor. A fleet that never moves is a floor alone.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, exp, log, sqrt

from tandem_operator.core.observe.demand_history import BUCKET_S, PEAK_S, UNKNOWN, DemandHistory
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.role_targets import Bursts
from tandem_operator.core.tuning.tuning import TUNING, Tuning

LateShare = Callable[[float, int], float]

LEAST_RATE_RPS = 1e-3


@dataclass(frozen=True, slots=True)
class BucketPart:
    """Some seconds of a bucket.

    Attributes:
        bucket: its place in the history.
        requests: how many came, weighted by how much they still count.
        steps: by role, the rate at which it felt them, on a grid: what was twice as long as today
            felt like twice as many.
        rate: the step of the rate itself.
    """

    bucket: int
    requests: float
    steps: Mapping[Role, int]
    rate: int


@dataclass(frozen=True, slots=True)
class Option:
    """What one floor would have cost: weighted late requests and replica-seconds."""

    floor: int
    late: float
    replica_s: float


class Late:
    """Late shares of one role on a grid of rates, each asked for once."""

    def __init__(self, share: LateShare, *, busy: float, tuning: Tuning = TUNING) -> None:
        self._share = share
        self._busy = busy
        self._tuning = tuning
        self._known: dict[tuple[int, int], float] = {}

    def share(self, step: int, replicas: int) -> float:
        """Share late at the rate of `step` on so many replicas."""
        found = self._known.get((step, replicas))
        if found is None:
            calm = self._tuning.objective.calm_load_ratio
            full = self._tuning.objective.full_load_ratio
            rate_rps = rate_of(step, tuning=self._tuning)
            load = rate_rps * self._busy / replicas if replicas > 0 else full
            if replicas < 1:
                found = 1.0
            elif load >= full:
                found = 1.0 - 1.0 / load
            else:
                found = self._share(rate_rps, replicas) if load > calm else 0.0
            self._known[step, replicas] = found
        return found


def rate_of(step: int, *, tuning: Tuning = TUNING) -> float:
    """The rate of a step of the grid."""
    return exp(step / tuning.objective.rate_grid_steps)


def parts_of(
    history: DemandHistory,
    weights: Sequence[float],
    *,
    mean_tokens: Mapping[Role, float],
    dispersion: float,
    tuning: Tuning = TUNING,
) -> tuple[BucketPart, ...]:
    """The history in parts of one rate each; a spike beyond chance is a part of its own.

    `mean_tokens` are the prompt tokens of a request of today, and its output tokens.
    """
    return tuple(_parts(history, weights, mean_tokens, dispersion, tuning=tuning))


def _parts(
    history: DemandHistory,
    weights: Sequence[float],
    mean_tokens: Mapping[Role, float],
    dispersion: float,
    *,
    tuning: Tuning = TUNING,
) -> Iterator[BucketPart]:
    numbers = tuning.objective
    wanted = history.wants.get(Role.PREFILL, ())
    for at, count in enumerate(history.requests):
        if count <= 0 or wanted[at] == UNKNOWN:
            continue
        then = {Role.PREFILL: history.prompt_tokens[at] / count, Role.DECODE: 0.0}
        if history.output_tokens:
            then[Role.DECODE] = history.output_tokens[at]
        longer = {
            role: then[role] / now if min(then[role], now) > 0.0 else 1.0
            for role, now in mean_tokens.items()
        }
        if abs(_step(longer[Role.DECODE], tuning=tuning)) <= numbers.alike_steps:
            # Of a bucket's prompts all lengths are known; its answers are those of a few requests.
            longer[Role.DECODE] = 1.0
        peak, usual = history.peaks[at], count * PEAK_S / BUCKET_S
        chance = sqrt(max(1.0, dispersion) * usual)
        split = peak > usual + numbers.peak_deviations * chance + 1.0
        spans = (
            ((peak, PEAK_S), (count - peak, BUCKET_S - PEAK_S)) if split else ((count, BUCKET_S),)
        )
        for requests, seconds in spans:
            if requests > 0:
                rate_rps = requests / seconds
                steps = {role: _step(rate_rps * longer[role], tuning=tuning) for role in Role}
                rate = _step(rate_rps, tuning=tuning)
                yield BucketPart(at, weights[at] * requests, steps, rate)


def _step(rate_rps: float, *, tuning: Tuning = TUNING) -> int:
    return round(tuning.objective.rate_grid_steps * log(max(rate_rps, LEAST_RATE_RPS)))


@dataclass(frozen=True, slots=True)
class PlayedFleet:
    """Replicas of a role in each bucket of a play: asked for, and ready."""

    asked: Sequence[int]
    ready: Sequence[int]


def unmoved(history: DemandHistory) -> PlayedFleet:
    """No fleet at all: what is held then is a floor alone."""
    nothing = [0] * len(history)
    return PlayedFleet(asked=nothing, ready=nothing)


def following(
    history: DemandHistory, role: Role, *, hold_s: float, lead_s: float, most: int | None = None
) -> PlayedFleet:
    """The fleet of a role that follows the forecast alone, up to `most`."""
    wants = [want if most is None else min(want, most) for want in history.wants[role]]
    hold, lead = ceil(hold_s / BUCKET_S), ceil(lead_s / BUCKET_S)
    asked = [max(0, *wants[max(0, i - hold) : i + 1]) for i in range(len(wants))]
    # Ready is what was asked for all the time that a start takes.
    ready = [min(asked[max(0, i - lead) : i + 1]) for i in range(len(asked))]
    return PlayedFleet(asked=asked, ready=ready)


def options(
    parts: Sequence[BucketPart],
    weights: Sequence[float],
    *,
    role: Role,
    late: Late,
    fleet: PlayedFleet,
    floors: range,
    tuning: Tuning = TUNING,
) -> list[Option]:
    """What each floor would have cost, up to the first with which nobody is late."""
    late_groups: dict[tuple[int, int], float] = defaultdict(float)
    for part in parts:
        late_groups[part.steps[role], fleet.ready[part.bucket]] += part.requests
    held_groups: dict[int, float] = defaultdict(float)
    for count, weight in zip(fleet.asked, weights, strict=True):
        held_groups[count] += weight * BUCKET_S
    nobody = tuning.objective.nobody_share * sum(late_groups.values())
    found = []
    for floor in floors:
        missed = sum(
            requests * late.share(step, max(floor, count))
            for (step, count), requests in late_groups.items()
        )
        held = sum(weight_s * max(floor, count) for count, weight_s in held_groups.items())
        found.append(Option(floor, missed, held))
        if missed <= nobody:
            break
    return found


def bursts_beyond(
    history: DemandHistory,
    parts: Sequence[BucketPart],
    *,
    role: Role,
    late: Late,
    replicas: int,
    mean_tokens: float,
    tuning: Tuning = TUNING,
) -> Bursts | None:
    """When so many replicas alone would not have been enough; `None`: never.

    `mean_tokens` is the length of what the role works on today.
    """
    numbers = tuning.objective
    missed = [(part, late.share(part.steps[role], replicas)) for part in parts]
    missed = [(part, share) for part, share in missed if share > numbers.nobody_share]
    if not missed:
        return None
    buckets = sorted({part.bucket for part, _ in missed})
    highest: dict[int, BucketPart] = {}
    for part, _ in missed:
        known = highest.setdefault(part.bucket, part)
        if part.steps[role] > known.steps[role]:
            highest[part.bucket] = part
    usual = sorted(highest.values(), key=lambda part: part.steps[role])[len(highest) // 2]
    longer = usual.steps[role] - usual.rate
    requests = sum(part.requests for part, _ in missed)
    ratio = rate_of(longer, tuning=tuning)
    return Bursts(
        rate_rps=rate_of(usual.rate, tuning=tuning),
        times=1 + sum(later - earlier > 2 for earlier, later in pairwise(buckets)),
        span_s=float((len(history) - buckets[0]) * BUCKET_S),
        late_share=sum(share * part.requests for part, share in missed) / requests,
        tokens=mean_tokens * ratio if abs(longer) > numbers.alike_steps else None,
    )
