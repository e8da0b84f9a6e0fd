"""The results of each run of each scenario, as lines of JSON that a later run adds to."""

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

from e2e.faults.evidence import Evidence, Fate
from e2e.faults.invariants import named_after_s, violations
from e2e.faults.scenario import Scenario

MOST_SENTENCES = 12
_OF_LATENCY = ("SLO", "Missed", "Met", "Infeasible", "Feasible")


@dataclass(frozen=True, slots=True)
class Result:
    """One run.

    Attributes:
        code: the commit that was run, with `+` where the tree had changes.
        why: the reasons of refused, lost and hung requests, and how often each.
        recovered_s: `None` where the pool was not whole again.
        named_s: how long status took to name the culprit; `None` where it did not, or need not.
        said: the new sentences of status after the fault.
    """

    scenario: str
    where: str
    seed: int
    code: str
    at: str
    took_s: float
    sent: int
    finished: int
    refused: int
    lost: int
    hung: int
    left: int
    wrong: int
    recovered_s: float | None
    named_s: float | None
    why: dict[str, int] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Return whether no invariant was violated."""
        return not self.violations

    def to_json(self) -> str:
        """Return one line of a results file."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, line: str) -> Self:
        """Read back what `to_json` wrote."""
        return cls(**json.loads(line))

    def __str__(self) -> str:
        """Return one line for a person who watches."""
        counts = (
            f"{self.sent} sent, {self.finished} finished, {self.refused} refused, "
            f"{self.lost} lost, {self.hung} hung, {self.wrong} wrong"
        )
        whole = "never" if self.recovered_s is None else f"after {self.recovered_s:.0f} s"
        return f"{counts}; whole {whole}" + "".join(f"\n      ! {v}" for v in self.violations)


def result_of(
    scenario: Scenario, seen: Evidence, *, seed: int, code: str, at: str, took_s: float
) -> Result:
    """Count what was seen, and check it."""
    fates = Counter(request.fate for request in seen.requests)
    new = sorted(
        (said.text for said in seen.said if said.at_s >= seen.fault_s),
        key=lambda text: _worth(scenario, text),
    )
    return Result(
        scenario=scenario.name,
        where=scenario.where,
        seed=seed,
        code=code,
        at=at,
        took_s=round(took_s, 1),
        sent=len(seen.requests),
        finished=fates[Fate.FINISHED],
        refused=fates[Fate.REFUSED],
        lost=fates[Fate.LOST],
        hung=fates[Fate.HUNG],
        left=fates[Fate.LEFT],
        wrong=sum(request.wrong is not None for request in seen.requests),
        recovered_s=_rounded(seen.recovered_s),
        named_s=_rounded(named_after_s(scenario, seen)),
        why=dict(Counter(r.why for r in seen.requests if r.why and r.fate is not Fate.FINISHED)),
        said=list(dict.fromkeys(new))[:MOST_SENTENCES],
        violations=violations(scenario, seen),
    )


def _worth(scenario: Scenario, text: str) -> int:
    """Return the rank of a sentence: the culprit's name first, effects of slow answers last."""
    if scenario.names is not None and re.search(scenario.names, text):
        return 0
    return 2 if text.startswith(_OF_LATENCY) else 1


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


def append(path: Path, result: Result) -> None:
    """Add one result to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as lines:
        lines.write(result.to_json() + "\n")


def newest(paths: Iterable[Path]) -> dict[tuple[str, int], Result]:
    """Return the last result of each scenario and seed."""
    found = (
        Result.from_json(line)
        for path in paths
        if path.exists()
        for line in path.read_text().splitlines()
    )
    ordered = sorted(found, key=lambda result: result.at)
    return {(result.scenario, result.seed): result for result in ordered}
