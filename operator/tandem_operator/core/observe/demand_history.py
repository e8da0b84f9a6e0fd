"""Hours of a pool's demand in buckets of twenty seconds, with the real bursts.

Each bucket also has the replicas that the forecast alone wanted then, without any insurance. With
both, a replay can find the late requests under another fleet. A hole stays unknown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, pvariance

from tandem_operator.core.observe.arrivals import GROUPS_S, Arrivals
from tandem_operator.core.role import Role
from tandem_operator.core.tuning.tuning import TUNING, Tuning

BUCKET_S = 20
PEAK_S = 5
KEPT_S = 4 * 3600
UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class DemandHistory:
    """Consecutive buckets, the latest last; one entry of each column per bucket.

    Attributes:
        end_s: end of the last bucket, in epoch seconds; `None` while there is none.
        requests, prompt_tokens: arrivals in it; `UNKNOWN` if a part was not seen. Only the tokens
            are unknown if they were reported too late.
        peaks: the most requests within five seconds of it.
        output_tokens: mean length of answers then; `UNKNOWN` if none had ended yet.
        wants: by role, the most replicas that the forecast alone wanted in it; `UNKNOWN` without
            a forecast.
        open_wants: the same for the bucket that has not ended yet.
    """

    end_s: int | None = None
    requests: tuple[int, ...] = ()
    prompt_tokens: tuple[int, ...] = ()
    peaks: tuple[int, ...] = ()
    output_tokens: tuple[int, ...] = ()
    wants: Mapping[Role, tuple[int, ...]] = field(default_factory=dict)
    open_wants: Mapping[Role, int] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return the number of buckets."""
        return len(self.requests)

    @property
    def silent_s(self) -> int:
        """Return the known time without any request."""
        since = next((i for i, n in enumerate(reversed(self.requests)) if n), len(self))
        return since * BUCKET_S

    def known_requests(self, window_s: int, *, without: int = 0) -> list[int]:
        """Return the known counts of the last `window_s`, apart from the last `without` buckets."""
        window = self.requests[-(window_s // BUCKET_S) : max(0, len(self) - without)]
        return [count for count in window if count != UNKNOWN]

    def close(
        self,
        arrivals: Arrivals,
        *,
        output_tokens: float | None = None,
        tuning: Tuning = TUNING,
    ) -> "DemandHistory":
        """Return the history with every bucket that has ended by now.

        `output_tokens` is the mean length of answers; `None` while none has ended.
        """
        last_s = arrivals.end_s // BUCKET_S * BUCKET_S
        first_known_s = arrivals.end_s - arrivals.known_s
        end_s = self.end_s
        if end_s is None or last_s - end_s > KEPT_S or last_s < end_s - KEPT_S:
            # Nothing yet, nothing for hours, or a clock that was set back by hours.
            return replace(DemandHistory(), end_s=last_s) if arrivals.known_s else self
        if last_s < end_s - tuning.observe.set_back_s:
            # Earlier buckets keep their age.
            return replace(self, end_s=last_s)
        if last_s <= end_s:
            return self
        requests, tokens, peaks = list(self.requests), list(self.prompt_tokens), list(self.peaks)
        # Buckets from before this column existed have no value in it.
        outputs = list(self.output_tokens) or [UNKNOWN] * len(self)
        added = 0
        for start_s in range(end_s, last_s, BUCKET_S):
            known = start_s >= first_known_s and arrivals.complete
            count, prompt_tokens, peak = _bucket(arrivals, start_s) if known else _NOTHING_KNOWN
            requests.append(count)
            tokens.append(prompt_tokens)
            peaks.append(peak)
            outputs.append(round(output_tokens) if known and output_tokens else UNKNOWN)
            added += 1
        kept = KEPT_S // BUCKET_S
        return DemandHistory(
            end_s=last_s,
            requests=tuple(requests[-kept:]),
            prompt_tokens=tuple(tokens[-kept:]),
            peaks=tuple(peaks[-kept:]),
            output_tokens=tuple(outputs[-kept:]),
            wants={
                role: (*self.wants.get(role, ()), *[self.open_wants.get(role, UNKNOWN)] * added)[
                    -kept:
                ]
                for role in Role
            },
        )

    def want(self, targets: Mapping[Role, int]) -> "DemandHistory":
        """Return the history after a tick whose forecast alone wanted `targets`."""
        return replace(
            self,
            open_wants={
                role: max(self.open_wants.get(role, UNKNOWN), targets[role]) for role in Role
            },
        )

    def rescaled(self, factors: Mapping[Role, float]) -> "DemandHistory":
        """Return the history as if each role had always needed so many times as many replicas."""

        def many(role: Role, want: int) -> int:
            return max(1, round(want * factors[role])) if want > 0 else want

        return replace(
            self,
            wants={r: tuple(many(r, want) for want in wants) for r, wants in self.wants.items()},
            open_wants={role: many(role, want) for role, want in self.open_wants.items()},
        )


_NOTHING_KNOWN = (UNKNOWN, UNKNOWN, UNKNOWN)


def _bucket(arrivals: Arrivals, start_s: int) -> tuple[int, int, int]:
    """Return requests, prompt tokens and peak of the bucket that begins at `start_s`."""
    at = start_s - (arrivals.end_s - arrivals.known_s)
    counts = arrivals.counts[at : at + BUCKET_S]
    peak = max(sum(counts[i : i + PEAK_S]) for i in range(0, BUCKET_S, PEAK_S))
    if start_s < arrivals.end_s - GROUPS_S and any(counts):
        # Prompt lengths are known only for the last minutes.
        return round(sum(counts)), UNKNOWN, round(peak)
    tokens = sum(
        group.requests * group.prompt_tokens
        for second in range(start_s, start_s + BUCKET_S)
        if second in arrivals.seconds
        for group in arrivals.seconds[second].groups
    )
    return round(sum(counts)), round(tokens), round(peak)


def vary_by_chance(counts: Sequence[int], *, tuning: Tuning = TUNING) -> bool:
    """Return whether the requests of enough buckets vary hardly more than chance."""
    numbers = tuning.objective
    if len(counts) * BUCKET_S < numbers.least_level_s or not any(counts):
        return False
    return pvariance(counts) <= numbers.level_dispersion_ratio * fmean(counts)
