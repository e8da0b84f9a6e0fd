"""The rows of the promise: the requirement, the goal and the measured value."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.promise.cases import Case
from benchmarks.promise.kept import Row
from benchmarks.promise.traffic import Family

RECURS = frozenset(
    {Family.POISSON, Family.MMPP, Family.SPIKES, Family.AGENTS, Family.SINE, Family.DAY}
)
STATIONARY = frozenset({Family.POISSON, Family.MMPP, Family.SPIKES, Family.AGENTS})
SURPRISE = frozenset({Family.STEP, Family.RAMP, Family.BURST, Family.SHIFT})
LONG_WAVE_S = 1200.0


@dataclass(frozen=True, slots=True)
class Result:
    """A case with the row of each policy; `None` where nothing of the kind reaches the target."""

    case: Case
    rows: Mapping[str, Row | None]

    def row(self, policy: str) -> Row | None:
        """Return the row of a policy, if it has one."""
        return self.rows.get(policy)

    @property
    def has_trend(self) -> bool:
        """Return whether its load moves so slowly, or once, that a fixed fleet wastes much."""
        traffic = self.case.traffic
        if traffic.family is Family.SINE:
            return (traffic.period_s or 0.0) >= LONG_WAVE_S
        return traffic.family is Family.DAY or traffic.family in SURPRISE

    @property
    def budget_used(self) -> float | None:
        """Return Tandem's late requests over the allowed ones; above 1 the promise is broken."""
        own = self.row("tandem")
        return None if own is None else (1.0 - own["attainment"]) / (1.0 - self.case.target)

    def cost_ratio(self, *others: str) -> float | None:
        """Return Tandem's GPU-hours over those of the cheapest other that reaches the target."""
        own = self.row("tandem")
        reached = [
            row["gpu_hours"]
            for row in map(self.row, others)
            if row is not None and row["attainment"] >= self.case.target
        ]
        return own["gpu_hours"] / min(reached) if own is not None and reached else None


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the table; a verdict is `None` where nothing could be measured."""

    what: str
    must: str
    goal: str
    measured: str
    keeps_must: bool | None
    keeps_goal: bool | None


def lines(results: Sequence[Result], before: Sequence[Result] = ()) -> list[Line]:
    """Return every row; `before` holds the results of an older core on the same cases."""
    return [
        _recurring(results),
        _unknown(
            results,
            "caught",
            "what nobody could know: late / late of who knows all from the event on, same fleet",
        ),
        _unknown(results, "surprised", "the same, with a fleet of its own before the event"),
        _cost(
            "GPU-hours / cheapest fixed fleet that reaches the target, stationary",
            (r.cost_ratio("fixed") for r in results if r.case.family in STATIONARY),
            must=(1.0, 1.1),
            goal=(0.95, 1.0),
        ),
        _cost(
            "the same, with a trend",
            (r.cost_ratio("fixed") for r in results if r.has_trend),
            must=(0.8, 1.05),
            goal=(0.65, 1.0),
        ),
        _cost(
            "GPU-hours / HPA or KEDA tuned in hindsight, where one reaches the target",
            (r.cost_ratio("hpa", "keda") for r in results),
            must=(0.8, 1.05),
            goal=(0.6, 1.0),
        ),
        _goodput(results),
        *_against_hold(results),
        *_changes(results),
        _first_minutes(results, before),
    ]


def _line(what: str, must: str, goal: str, measured: str, keeps: tuple[bool, bool] | None) -> Line:
    shown = measured if keeps is not None else "not measured"
    kept_must, kept_goal = (None, None) if keeps is None else keeps
    return Line(what, must, goal, shown, kept_must, kept_goal)


def _recurring(results: Sequence[Result]) -> Line:
    known = [
        (result, result.budget_used)
        for result in results
        if result.case.family in RECURS and result.row("fixed") is not None
    ]
    used = [share for _, share in known if share is not None]
    held = sum(share <= 1.0 for share in used)
    worst = max(used, default=0.0)
    return _line(
        "what recurs: target reached where a fixed fleet reaches it",
        "97 % of cases, others miss by half of the budget",
        "all",
        f"{held} of {len(used)}; worst uses {worst:.2f} of its budget",
        (held >= 0.97 * len(used) and worst <= 1.5, held == len(used)) if used else None,
    )


def _unknown(results: Sequence[Result], bound_by: str, what: str) -> Line:
    """Return the late requests over those of a policy that learns of the event as it happens.

    The late requests that the objective allows do not count, even where that policy loses fewer.
    """
    ratios = []
    for result in results:
        own, bound = result.row("tandem"), result.row(bound_by)
        if own is not None and bound is not None:
            allowed = (1.0 - result.case.target) * own["requests"]
            ratios.append(own["late"] / max(1.0, allowed, bound["late"]))
    within = [sum(ratio <= most for ratio in ratios) for most in (1.25, 1.1)]
    return _line(
        what,
        "<= 1.25",
        "<= 1.1",
        f"<= 1.25 in {within[0]}, <= 1.1 in {within[1]} of {len(ratios)};"
        f" worst {max(ratios, default=0.0):.2f}",
        (within[0] == len(ratios), within[1] == len(ratios)) if ratios else None,
    )


def _cost(
    what: str,
    found: Iterable[float | None],
    *,
    must: tuple[float, float],
    goal: tuple[float, float],
) -> Line:
    ratios = [ratio for ratio in found if ratio is not None]
    mean, worst = _mean(ratios), max(ratios, default=0.0)
    return _line(
        what,
        f"mean <= {must[0]:g}, never > {must[1]:g}",
        f"mean <= {goal[0]:g}, never > {goal[1]:g}",
        f"mean {mean:.2f}, worst {worst:.2f}, {len(ratios)} cases",
        (mean <= must[0] and worst <= must[1], mean <= goal[0] and worst <= goal[1])
        if ratios
        else None,
    )


def _goodput(results: Sequence[Result]) -> Line:
    shares = []
    for result in results:
        own = result.row("tandem")
        bounds = [row for row in (result.row("clairvoyant"), result.row("fixed")) if row]
        if own is not None and bounds:
            best = max(row["good_per_gpu_s"] for row in bounds)
            shares.append(own["good_per_gpu_s"] / best if best > 0.0 else 1.0)
    mean = _mean(shares)
    return _line(
        "goodput per GPU / the better of clairvoyant and fixed",
        "mean >= .9",
        "mean >= .97",
        f"mean {mean:.3f}, worst {min(shares, default=0.0):.3f}, {len(shares)} cases",
        (mean >= 0.9, mean >= 0.97) if shares else None,
    )


def _against_hold(results: Sequence[Result]) -> Iterable[Line]:
    pairs = [
        (result, own, other)
        for result in results
        for own, other in [(result.row("tandem"), result.row("hold"))]
        if own is not None and other is not None
    ]
    worse = [
        result.case.name
        for result, own, other in pairs
        if own["attainment"] < other["attainment"] and own["gpu_hours"] > other["gpu_hours"]
    ]
    yield _line(
        "against `hold`, each case",
        "never worse on both axes",
        "the same",
        f"worse on both in {len(worse)} of {len(pairs)}",
        (not worse, not worse) if pairs else None,
    )
    families = sorted({result.case.family for result, _, _ in pairs})
    lower, better = [], []
    for family in families:
        of = [(own, other) for result, own, other in pairs if result.case.family is family]
        gained = _mean([own["attainment"] - other["attainment"] for own, other in of])
        saved = _mean([other["gpu_hours"] - own["gpu_hours"] for own, other in of])
        if gained < 0.0 or saved < 0.0:
            lower.append(f"{family} ({gained:+.3f}, {-saved:+.2f} GPU-h)")
        if gained > 0.0 and saved > 0.0:
            better.append(family)
    yield _line(
        "against `hold`, means of each family",
        "attainment no lower, GPU-hours no higher",
        "better on both",
        f"better on both in {len(better)} of {len(families)}; worse: {', '.join(lower) or 'none'}",
        (not lower, len(better) == len(families)) if pairs else None,
    )


def _changes(results: Sequence[Result]) -> Iterable[Line]:
    level = [
        own["changes_per_hour"]
        for result in results
        if result.case.family is Family.POISSON
        for own in [result.row("tandem")]
        if own is not None
    ]
    yield _line(
        "replica changes per hour at constant load",
        "<= 1",
        "<= 1",
        f"mean {_mean(level):.1f}, most {max(level, default=0.0):.1f}, {len(level)} cases",
        (max(level) <= 1.0,) * 2 if level else None,
    )
    pairs = [
        (own["changes_per_hour"], other["changes_per_hour"])
        for result in results
        for own, other in [(result.row("tandem"), result.row("clairvoyant"))]
        if own is not None and other is not None
    ]
    own_mean, other_mean = _mean([a for a, _ in pairs]), _mean([b for _, b in pairs])
    fine = own_mean <= 1.5 * other_mean
    yield _line(
        "the same in all families, against the clairvoyant's",
        "<= 1.5 times",
        "<= 1.5 times",
        f"{own_mean:.1f} against {other_mean:.1f}",
        (fine, fine) if pairs else None,
    )


def _first_minutes(results: Sequence[Result], before: Sequence[Result]) -> Line:
    older = {r.case.name: row for r in before for row in [r.row("tandem")] if row is not None}
    moved = [
        own["first"]["attainment"] - older[result.case.name]["first"]["attainment"]
        for result in results
        for own in [result.row("tandem")]
        if own is not None and result.case.name in older
    ]
    return _line(
        "first 15 minutes, attainment against the core before (`--before`)",
        "no worse by 1 point",
        "better",
        f"mean {100.0 * _mean(moved):+.2f} points, {len(moved)} cases",
        (_mean(moved) >= -0.01, _mean(moved) > 0.0) if moved else None,
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def worst(results: Sequence[Result], count: int = 10) -> list[Result]:
    """Return the cases that use the largest shares of their budget."""
    key: Callable[[Result], float] = lambda result: result.budget_used or 0.0  # noqa: E731
    known = [result for result in results if result.budget_used is not None]
    return sorted(known, key=key, reverse=True)[:count]
