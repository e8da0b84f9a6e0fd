"""Count the router's behaviour in an overload, which serves like a spare replica.

If the router lets the excess wait behind requests that can be on time, only the excess is late. If
it sends whole requests to decode replicas with slack, it lends this slack to prefill.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from heapq import heapreplace
from itertools import pairwise
from math import erfc, exp, inf, pi, sqrt

from tandem_operator.core.role import Role
from tandem_operator.core.sizing.decode_lateness import DecodeWork
from tandem_operator.core.sizing.demand import Situation
from tandem_operator.core.sizing.prefill_lateness import (
    Job,
    PrefillWork,
    Replay,
    quantile,
)
from tandem_operator.core.sizing.replica_counts import LateShare, RoleDemand
from tandem_operator.core.spec import Insurance
from tandem_operator.core.tuning.tuning import TUNING, Tuning


def insured(
    insurance: Insurance, situation: Situation | None, *, tuning: Tuning = TUNING
) -> Situation | None:
    """Return the situation with this insurance: fewer are late with the same replicas."""
    if situation is None:
        return None
    demands = dict(situation.demands)
    if tuning.sizing.deadline_order:
        excess = PrefillExcess(situation.replay.work, tuning=tuning)
        demands[Role.PREFILL] = replace(
            demands[Role.PREFILL], late_share=excess.late_share, priced_share=None
        )
    if insurance.decode_gate:
        decode = situation.decode
        demands[Role.DECODE] = replace(
            demands[Role.DECODE],
            late_share=lambda rate_rps, replicas: decode_excess(decode, rate_rps, replicas),
        )
    return replace(situation, demands=demands)


def lent(
    demands: Mapping[Role, RoleDemand], decode_replicas: int, *, tuning: Tuning = TUNING
) -> Mapping[Role, RoleDemand]:
    """Return the demands if prefill may use the slack of `decode_replicas` above the mean rate.

    Prefill must serve the mean rate itself, because a fleet that relies on another's slack changes
    with it.
    """
    prefill, busy = demands[Role.PREFILL], demands[Role.DECODE].busy
    late_share: LateShare = prefill.late_share
    usable = tuning.sizing.usable_slack_share

    def with_slack(rate_rps: float, replicas: int) -> float:
        slack = usable * max(0.0, decode_replicas - rate_rps * busy)
        return late_share(rate_rps * replicas / (replicas + slack), replicas)

    return {**demands, Role.PREFILL: replace(prefill, priced_share=with_slack)}


def decode_excess(work: DecodeWork, rate_rps: float, replicas: int) -> float:
    """Return the share of requests beyond the capacity of `replicas`, for a normal load."""
    if rate_rps <= 0.0:
        return 0.0
    load = work.load(rate_rps) / replicas
    deviation = max(1e-9, work.deviation(rate_rps, replicas))
    above = (load - 1.0) / deviation
    density = exp(-0.5 * above * above) / sqrt(2.0 * pi)
    return (deviation * density + (load - 1.0) * 0.5 * erfc(-above / sqrt(2.0))) / load


class PrefillExcess(Replay):
    """Late shares if late requests wait behind the others: no load makes all requests late."""

    def __init__(self, work: PrefillWork, *, tuning: Tuning = TUNING) -> None:
        super().__init__(work, tuning=tuning)
        self._hopeless_load = inf
        self._patience_s = _patience_s(work)

    def _replayed(self, rate_rps: float, replicas: int) -> float:
        work = self.work
        late = _late_count(work.singles, rate_rps, replicas)
        share = late / (work.singles_counted + self.tuning.sizing.unseen_on_time_requests)
        if work.chunks:
            share = max(share, self._late_work_share(rate_rps, replicas))
        return share

    def _late_work_share(self, rate_rps: float, replicas: int) -> float:
        """Return the share of work that comes while the fleet can serve no more of it in time."""
        # Branches, not `max` and `min`: dozens of these make up most of a tick.
        backlog_s = late_s = total_s = 0.0
        most_s = replicas * self._patience_s
        for (at, work_s, _, _), following in pairwise(self.work.chunks):
            total_s += work_s
            backlog_s = backlog_s + work_s - (following.at - at) / rate_rps * replicas
            if backlog_s < 0.0:
                backlog_s = 0.0
            elif backlog_s > most_s:
                late_s += backlog_s - most_s
                backlog_s = most_s
        return late_s / total_s if total_s > 0.0 else 0.0


def _patience_s(work: PrefillWork) -> float:
    """Return how long half of the requests can wait."""
    spares = [(job.spare_s, 1) for job in work.singles if job.spare_s < inf]
    if work.chunks:
        spares = [
            (spare_s, above - below)
            for chunk in work.chunks
            for spare_s, (below, above) in zip(chunk.spares_s, pairwise(chunk.late), strict=True)
        ]
    return quantile(spares, 0.5) if spares else 0.0


def _late_count(jobs: Sequence[Job], rate_rps: float, replicas: int) -> int:
    """Return the requests that are set back because they would be late, on `replicas` servers."""
    free = [0.0] * replicas
    late = 0
    for at, work_s, spare_s in jobs:
        now = at / rate_rps
        start = free[0]
        if start <= now:
            heapreplace(free, now + work_s)
        elif start - now > spare_s:
            late += 1
        else:
            heapreplace(free, start + work_s)
    return late
