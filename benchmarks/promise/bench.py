"""A case with its pool, and the file that keeps its runs."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.promise.cases import Case, pool_of
from benchmarks.promise.kept import Kept, Row, key_of
from benchmarks.promise.runs import run
from tandem_operator.cli.input import case as simulated
from tandem_operator.core.role import Role
from tandem_operator.sim.policy import Policy, Static

Size = tuple[int, int]


@dataclass(slots=True)
class Bench:
    """A case with the file that keeps its runs."""

    case: Case
    kept: Kept
    folder: Path | None
    _pool: simulated.Case | None = None

    @property
    def pool(self) -> simulated.Case:
        """Return the pool; it is made when something must be run."""
        if self._pool is None:
            self._pool = pool_of(self.case, self.folder)
        return self._pool

    def one(self, kind: str, settings: object, policy: Callable[[simulated.Case], Policy]) -> Row:
        """Return the row of one run, made now or kept from before."""
        key = key_of(kind, self.case.identity, settings)
        return self.kept.get(key, lambda: run(self.case, self.pool, policy(self.pool)))

    def fixed(self, size: Size) -> Row:
        """Return the run of a fleet that never moves. The objective tells it nothing."""
        without_target = self.case.identity.rpartition(" ")[0]
        fleet = {Role.PREFILL: size[0], Role.DECODE: size[1]}
        key = key_of("fixed", without_target, size)
        return self.kept.get(key, lambda: run(self.case, self.pool, Static(fleet)))
