"""Run the core without a step on a case, behind the live router's policy and with its insurance."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from benchmarks.ablation import parts
from benchmarks.ablation.cases import CASES
from benchmarks.ablation.parts import PARTS, Part
from benchmarks.promise.bench import Bench
from benchmarks.promise.kept import Kept, Row
from tandem_operator.core.tuning.tuning import TUNING
from tandem_operator.sim.policy import Tandem

CORE = "tandem_operator.core"
Task = tuple[str, str, Path]


def outcome(task: Task) -> tuple[str, str, Row]:
    """Return the case, the step, and the figures of the core without that step on that case."""
    name, step, cache = task
    part = PARTS[step]
    case = CASES[name]
    case = replace(case, cold_start_s=case.cold_start_s + part.later_s)
    bench = Bench(case, Kept(cache / "runs.jsonl"), None)
    with without(part):
        made_by = Path(parts.__file__).read_text()
        row = bench.one("tandem", (step, made_by), lambda _: Tandem(tuning=part.tuned(TUNING)))
    return name, step, row


@contextmanager
def without(part: Part) -> Iterator[None]:
    """Take a step out of the core, in this process, for as long as the context lasts."""
    with ExitStack() as changed:
        for target, other in part.instead.items():
            changed.enter_context(patch(f"{CORE}.{target}", other))
        yield
