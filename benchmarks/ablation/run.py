"""Run the core without a step on a trace, or take what was run before with the same code."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.ablation import parts
from benchmarks.ablation.parts import PARTS, Part
from benchmarks.beyond import run as pools
from benchmarks.beyond.run import GPUS, setup_of
from benchmarks.beyond.steps import STEPS
from benchmarks.simulator.kept import kept
from tandem_operator.sim.cluster.pods import ColdStart
from tandem_operator.sim.policy import Tandem
from tandem_operator.sim.simulate import Scenario, simulate

CORE = "tandem_operator.core"
# What a result depends on besides the core and the simulator.
MADE_BY = [Path(__file__), Path(parts.__file__), Path(pools.__file__)]


def outcome(
    name: str, part: str, *, startup_s: float, folder: Path, traces: Path
) -> dict[str, Any]:
    """What came of the core without `part` on a trace."""
    return kept(
        [name, part, startup_s],
        folder,
        lambda: _run(name, PARTS[part], startup_s=startup_s, traces=traces),
        made_by=MADE_BY,
    )


@contextmanager
def without(part: Part) -> Iterator[None]:
    """The core without a step, in this process, for as long as the context lasts."""
    with ExitStack() as changed:
        for target, other in part.instead.items():
            changed.enter_context(patch(f"{CORE}.{target}", other))
        yield


def _run(name: str, part: Part, *, startup_s: float, traces: Path) -> dict[str, Any]:
    began_s = time.process_time()
    setup = setup_of(name, STEPS["engines"], traces)
    scenario = Scenario(pools=(), cold_start=ColdStart(startup_s), gpus=GPUS)
    with without(part):
        report = simulate(setup, Tandem(), scenario)
    return report.to_json() | {"cpu_s": time.process_time() - began_s}
