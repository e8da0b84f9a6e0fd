"""Replay a demand history under other fleets: late requests and cost.

A role has the replicas that the forecast alone wanted one start-up time ago. It keeps them for a
while, and never has fewer than a floor. A fleet that never changes is only a floor.
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
        requests: their number, weighted by age.
        steps: the rate for each role, on a grid: a request of twice the present length counts as
            two.
        rate: the step of the rate itself.
    """

    bucket: int
    requests: float
    steps: Mapping[Role, int]
    rate: int


@dataclass(frozen=True, slots=True)
class Option:
    """The result of one floor: weighted late requests and replica-seconds."""

    floor: int
    late: float
    replica_s: float


class Late:
    """Late shares of one role on a grid of rates, each computed once."""

    def __init__(self, share: LateShare, *, busy: float, tuning: Tuning = TUNING) -> None:
        self._share = share
        self._busy = busy
        self._tuning = tuning
        self._known: dict[tuple[int, int], float] = {}

    def share(self, step: int, replicas: int) -> float:
        """Return the late share at the rate of `step` on so many replicas."""
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
    """Return the rate of a step of the grid."""
    return exp(step / tuning.objective.rate_grid_steps)


def parts_of(
    history: DemandHistory,
    weights: Sequence[float],
    *,
    mean_tokens: Mapping[Role, float],
    dispersion: float,
    tuning: Tuning = TUNING,
) -> tuple[BucketPart, ...]:
    """Return the history in parts of one rate each; a spike beyond chance is a separate part.

    `mean_tokens` are the prompt tokens of a present request, and its output tokens.
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
            # The lengths of all prompts of a bucket are known; those of answers are from a few
            # requests.
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
    """Replicas of a role in each bucket of a replay: asked for, and ready."""

    asked: Sequence[int]
    ready: Sequence[int]


def unmoved(history: DemandHistory) -> PlayedFleet:
    """Return an empty fleet, so that only a floor counts."""
    nothing = [0] * len(history)
    return PlayedFleet(asked=nothing, ready=nothing)


def following(
    history: DemandHistory, role: Role, *, hold_s: float, lead_s: float, most: int | None = None
) -> PlayedFleet:
    """Return the fleet of a role that follows the forecast alone, up to `most`."""
    wants = [want if most is None else min(want, most) for want in history.wants[role]]
    hold, lead = ceil(hold_s / BUCKET_S), ceil(lead_s / BUCKET_S)
    asked = [max(0, *wants[max(0, i - hold) : i + 1]) for i in range(len(wants))]
    # A replica is ready if it was wanted for the whole start-up time.
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
    """Return the result of each floor, up to the first one without late requests."""
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
    """Return the bursts for which so many replicas alone were not enough; `None`: never.

    `mean_tokens` is the present length of the role's work for a request.
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
