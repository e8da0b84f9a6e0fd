"""The story of a demo as plain data, and the summary made from it."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks.load.plan import Traffic
from benchmarks.load.record import Record, Tally, tally
from e2e.demo.phases import Phase
from tandem_operator.core.role import Role
from tandem_operator.core.slo import Slo

EXPLAINED_WITHIN_S = 10.0
_ROLE_BEGINS = re.compile(r"; (?=(?:prefill|decode) (?:stays|\d))")


@dataclass(frozen=True, slots=True)
class Fleet:
    """One role's Deployment: its wanted and its Ready replicas."""

    desired: int
    ready: int


@dataclass(frozen=True, slots=True)
class Sight:
    """The pool as the API server showed it at one moment (epoch seconds)."""

    at_s: float
    fleets: Mapping[Role, Fleet]
    sentence: str


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a role's replicas, with the operator's own explanation."""

    at_s: float
    role: Role
    before: int
    after: int
    sentence: str

    @property
    def grew(self) -> bool:
        """Return whether it added replicas."""
        return self.after > self.before


@dataclass(frozen=True, slots=True)
class Extent:
    """The wanted replicas over one phase."""

    start: int
    max: int
    end: int

    @property
    def grew(self) -> bool:
        """Return whether more replicas were wanted than at the start."""
        return self.max > self.start


@dataclass(frozen=True, slots=True)
class PhaseRun:
    """One phase as it went; what was seen in it is added at the end.

    Attributes:
        traffic: the traffic at its end, after a climb from `first_rps`.
        late_by_cause: the count of late requests by the part of their way that routers blame.
    """

    phase: Phase
    traffic: Traffic
    first_rps: float
    slo: Slo
    started_s: float
    ended_s: float
    records: tuple[Record, ...] = ()
    sights: tuple[Sight, ...] = ()
    changes: tuple[Change, ...] = ()
    late_by_cause: Mapping[str, int] = field(default_factory=dict)

    @property
    def rates(self) -> str:
        """Return the requests per second, from its start to its end, for people."""
        first, last = f"{self.first_rps:g}", f"{self.traffic.rate_rps:g}"
        return f"{first}/s" if first == last else f"{first} to {last}/s"

    @property
    def tally(self) -> Tally:
        """Return its requests in figures, judged by the bounds of the phase."""
        return tally([(record, self.slo) for record in self.records])

    def extent(self, role: Role) -> Extent:
        """Return the wanted replicas over the phase."""
        counts = [sight.fleets[role].desired for sight in self.sights]
        return Extent(start=counts[0], max=max(counts), end=counts[-1])

    def growths(self, role: Role) -> list[Change]:
        """Return the changes that added replicas."""
        return [change for change in self.changes if change.role is role and change.grew]

    def most_ready(self, role: Role) -> int:
        """Return the most replicas that were Ready at one moment."""
        return max(sight.fleets[role].ready for sight in self.sights)


@dataclass(frozen=True, slots=True)
class Seconds:
    """The duration of each step; `first_answer` runs from the start to the first streamed token."""

    cluster: float
    images: float
    install: float
    ready: float
    first_answer: float
    total: float


@dataclass(frozen=True, slots=True)
class Story:
    """The whole demo."""

    seconds: Seconds
    slo: Slo
    cold_start_s: float
    answer: str
    runs: tuple[PhaseRun, ...]


def part_of(sentence: str, role: Role) -> str:
    """Return what a decision's sentence says of one role."""
    parts = _ROLE_BEGINS.split(sentence)
    return next((part.strip() for part in parts if part.startswith(role)), sentence)


def changes_in(sights: Sequence[Sight]) -> tuple[Change, ...]:
    """Return every change of a replica count, with the sentence that the operator gave for it.

    Deployment and status are written one after the other, so the sentence may be seen a little
    before or after the count.
    """
    changes = []
    for number, (before, after) in enumerate(itertools.pairwise(sights), start=1):
        for role in Role:
            old, new = before.fleets[role].desired, after.fleets[role].desired
            if old == new:
                continue
            said = (part_of(sight.sentence, role) for sight in _near(sights, number))
            sentence = next(
                (part for part in said if part.startswith(f"{role} {old} -> {new}:")),
                f"{role} {old} -> {new}: no explanation was seen on the pool",
            )
            changes.append(Change(after.at_s, role, old, new, sentence))
    return tuple(changes)


def _near(sights: Sequence[Sight], number: int) -> Iterator[Sight]:
    at_s = sights[number].at_s
    yield from (sight for sight in sights if abs(sight.at_s - at_s) <= EXPLAINED_WITHIN_S)


def fill_in(
    runs: Sequence[PhaseRun], *, records: Sequence[Record], sights: Sequence[Sight]
) -> tuple[PhaseRun, ...]:
    """Give each phase its requests, sights and changes."""
    changes = changes_in(sights)
    return tuple(
        replace(
            run,
            records=tuple(record for record in records if record.traffic == run.phase.name),
            sights=tuple(sight for sight in sights if run.started_s <= sight.at_s < run.ended_s),
            changes=tuple(
                change for change in changes if run.started_s <= change.at_s < run.ended_s
            ),
        )
        for run in runs
    )


def summarize(story: Story) -> dict[str, Any]:
    """Return the content of `summary.json`; its form is fixed, other programs read it."""
    seconds = story.seconds
    return {
        "seconds": {
            name: round(getattr(seconds, name), 1)
            for name in ("cluster", "images", "install", "ready", "total")
        },
        "slo": {
            "ttft_s": story.slo.ttft_s,
            "tpot_s": story.slo.tpot_s,
            "attainment": story.slo.attainment,
        },
        "phases": [_summarize_phase(run) for run in story.runs],
    }


def _summarize_phase(run: PhaseRun) -> dict[str, Any]:
    figures = run.tally
    return {
        "name": run.phase.name,
        "requests": figures.requests,
        "good": figures.good,
        "failed": figures.failed,
        "shed": figures.shed,
        "attainment": _rounded(figures.attainment),
        "ttft_p50_s": _rounded(figures.ttft_p50_s),
        "ttft_p95_s": _rounded(figures.ttft_p95_s),
        "tpot_p50_s": _rounded(figures.tpot_p50_s),
        "tpot_p95_s": _rounded(figures.tpot_p95_s),
        **{role.value: _summarize_extent(run.extent(role)) for role in Role},
        "late_by_cause": dict(run.late_by_cause),
        "decisions": [change.sentence for change in run.changes],
    }


def _summarize_extent(extent: Extent) -> dict[str, int]:
    return {"start": extent.start, "max": extent.max, "end": extent.end}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
