"""The desired counts of past ticks, run by run: for how long do they agree?"""

from dataclasses import dataclass

RUNS_KEPT = 200


@dataclass(frozen=True, slots=True)
class WantedRun:
    """A target that was wanted from one moment until the next run."""

    since_s: float
    target: int


@dataclass(frozen=True, slots=True)
class Wants:
    """The desired counts of past ticks, run by run; a time without fresh data restarts them."""

    runs: tuple[WantedRun, ...] = ()
    seen_s: float | None = None

    def add(self, target: int, *, now_s: float, kept_s: float, unseen_s: float) -> "Wants":
        """Return the runs after one more tick; they restart after a gap above `unseen_s`."""
        if self.seen_s is None or not 0.0 <= now_s - self.seen_s <= unseen_s:
            return Wants(runs=(WantedRun(now_s, target),), seen_s=now_s)
        runs = self.runs
        if runs[-1].target != target:
            runs = (*runs, WantedRun(now_s, target))
        while len(runs) > 1 and runs[1].since_s < now_s - kept_s:
            runs = runs[1:]
        if len(runs) > RUNS_KEPT:
            runs = _coarse(runs, grain_s=2.0 * kept_s / RUNS_KEPT, until_s=now_s - unseen_s)
        return Wants(runs=runs, seen_s=now_s)

    def within(self, window_s: float, now_s: float) -> list[int] | None:
        """Return all targets of the last `window_s`; `None` if it was not watched throughout."""
        if not self.runs or self.runs[0].since_s > now_s - window_s:
            return None
        first = max(i for i, run in enumerate(self.runs) if run.since_s <= now_s - window_s)
        return [run.target for run in self.runs[first:]]


def _coarse(
    runs: tuple[WantedRun, ...], *, grain_s: float, until_s: float
) -> tuple[WantedRun, ...]:
    """Return the runs with those before `until_s` joined to one per `grain_s`, with the maximum."""
    joined: list[WantedRun] = []
    for run in runs:
        last = joined[-1] if joined else None
        if last is not None and run.since_s < min(until_s, last.since_s + grain_s):
            joined[-1] = WantedRun(last.since_s, max(last.target, run.target))
        else:
            joined.append(run)
    return tuple(joined)
