"""The results of each tenant as rows of text; the smallest of many tenants share a row."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tandem_operator.cli.experiments.experiment import Run
from tandem_operator.cli.experiments.spread import percent, points
from tandem_operator.cli.output.compared import Comparison, Figure, Row, relative
from tandem_operator.cli.units import UNKNOWN, amount, latency, share
from tandem_operator.sim.report import TenantOutcome

TITLES = ("tenant", "requests", "on time", "refused", "tokens out", "TTFT p99")
MOST_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Shown:
    """The tenants of one row."""

    label: str
    names: tuple[str, ...]

    def of(self, run: Run) -> TenantOutcome | None:
        """Return their results together; `None` if the traffic of the run names none of them."""
        tenants = run.report.tenants
        found = [tenants[name] for name in self.names if name in tenants]
        return sum_of(found) if found else None


def sum_of(outcomes: Sequence[TenantOutcome]) -> TenantOutcome:
    """Return the results of several tenants together; their TTFT is not known."""
    if len(outcomes) == 1:
        return outcomes[0]
    return TenantOutcome(
        requests=sum(each.requests for each in outcomes),
        good=sum(each.good for each in outcomes),
        limited=sum(each.limited for each in outcomes),
        refused=sum(each.refused for each in outcomes),
        output_tokens=sum(each.output_tokens for each in outcomes),
        ttft_p99_s=None,
    )


def shown_of(runs: Sequence[Run]) -> list[Shown]:
    """Return the tenants of each row, those with the most requests first."""
    requests: Counter[str] = Counter()
    for run in runs:
        requests.update({name: each.requests for name, each in run.report.tenants.items()})
    names = sorted(requests, key=lambda name: (-requests[name], name))
    # A row of others stands for at least two tenants.
    count = len(names) if len(names) <= MOST_SHOWN else MOST_SHOWN - 1
    rows = [Shown(name or "no tenant", (name,)) for name in names[:count]]
    rest = tuple(names[count:])
    return [*rows, Shown(f"{len(rest)} others", rest)] if rest else rows


def tenant_rows(runs: Mapping[str, Run]) -> list[Row]:
    """Return each tenant under each of the named runs."""
    found = []
    for shown in shown_of(list(runs.values())):
        for name, run in runs.items():
            outcome = shown.of(run)
            if outcome is not None:
                label = shown.label if len(runs) == 1 else f"{shown.label}, {name}"
                found.append((label, *_cells(outcome)))
    return found


def _cells(found: TenantOutcome) -> Row:
    return (
        f"{found.requests:,}",
        share(found.attainment),
        f"{found.refused:,}",
        f"{found.output_tokens:,}",
        latency(found.ttft_p99_s),
    )


def compared_rows(found: Comparison) -> Iterator[Row]:
    """Yield the figures of each tenant before and after an edit, and the difference."""
    for shown in shown_of(found.runs):
        label = shown.label
        yield _counted(found, f"{label}: requests", _figure(shown, lambda each: each.requests))
        yield _shared(found, f"{label}: on time", _figure(shown, lambda each: each.attainment))
        refused = _figure(shown, _refused_share)
        if any(refused(run) for run in found.runs):
            yield _shared(found, f"{label}: refused", refused)
        tokens = _figure(shown, lambda each: each.output_tokens)
        yield _counted(found, f"{label}: tokens out", tokens)


def _refused_share(found: TenantOutcome) -> float | None:
    return found.refused / found.requests if found.requests else None


def _figure(shown: Shown, value: Callable[[TenantOutcome], float | None]) -> Figure:
    def figure(run: Run) -> float | None:
        outcome = shown.of(run)
        return None if outcome is None else value(outcome)

    return figure


def _counted(found: Comparison, label: str, figure: Figure) -> Row:
    old, new = map(figure, found.runs)
    cells = (label, amount(old), amount(new), relative(old, new))
    over = percent(found.over_seeds(figure), found.mean_of(0, figure))
    return (*cells, over) if len(found.repeats) > 1 else cells


def _shared(found: Comparison, label: str, figure: Figure) -> Row:
    old, new = map(figure, found.runs)
    apart = UNKNOWN
    if old is not None and new is not None:
        apart = f"{100.0 * (new - old):+.2f} points" if old != new else ""
    cells = (label, share(old), share(new), apart)
    return (*cells, points(found.over_seeds(figure))) if len(found.repeats) > 1 else cells
