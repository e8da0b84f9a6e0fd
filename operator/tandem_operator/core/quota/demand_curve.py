"""A pool's demand curve: the good requests per second with each number of GPUs."""

from collections.abc import Mapping
from dataclasses import dataclass

from tandem_operator.core.forecast.distribution import Forecast
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.replica_counts import RoleDemand, count_pairs
from tandem_operator.core.spec import PoolSpec
from tandem_operator.core.tuning.tuning import TUNING, Tuning

NEGLIGIBLE_RPS = 1e-9


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The best pair for so many GPUs, and its good requests."""

    gpus: int
    counts: Mapping[Role, int]
    goodput_rps: float


Curve = tuple[CurvePoint, ...]
"""More GPUs at each point and, except for the last, more good requests; from minimum to target."""


def demand_curve(
    spec: PoolSpec,
    forecast: Forecast,
    demands: Mapping[Role, RoleDemand],
    *,
    target: Mapping[Role, int],
    fixed: Mapping[Role, int],
    good_share: float,
    tuning: Tuning = TUNING,
) -> Curve:
    """Return the curve up to `target`, at the rates of the highest forecast level.

    The last point is always `target`. Its replicas beyond the best smaller pair are safety that the
    few samples of the forecast need not show.
    """
    best: dict[int, CurvePoint] = {}
    last: CurvePoint | None = None
    for pair in count_pairs(
        spec,
        forecast.peak.samples_rps,
        demands,
        target=target,
        fixed=fixed,
        good_share=good_share,
        tuning=tuning,
    ):
        last = CurvePoint(pair.gpus, pair.counts, pair.goodput_rps)
        if pair.gpus not in best or last.goodput_rps > best[pair.gpus].goodput_rps + NEGLIGIBLE_RPS:
            best[pair.gpus] = last
    if last is None:
        return ()
    curve: list[CurvePoint] = []
    for gpus in sorted(best):
        point = best[gpus]
        if gpus < last.gpus and (
            not curve or point.goodput_rps > curve[-1].goodput_rps + NEGLIGIBLE_RPS
        ):
            curve.append(point)
    reached = max([last.goodput_rps, *(point.goodput_rps for point in curve)])
    return (*curve, CurvePoint(last.gpus, last.counts, reached))
