"""Run one step on one trace, or take what was run before with the same code."""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks import other_routers
from benchmarks.beyond import steps
from benchmarks.beyond.steps import Step
from benchmarks.replay.recipes import RECIPES, SUITE
from benchmarks.replay.setup import MAX_NUM_SEQS, context_of
from benchmarks.simulator.__main__ import profile_of
from benchmarks.simulator.cases import Case
from benchmarks.simulator.kept import NOTED, kept
from tandem_operator.core.role import Role
from tandem_operator.core.slo import Slo
from tandem_operator.core.spec import Mode, PoolSpec, RoleSpec
from tandem_operator.sim.baselines.clairvoyant import Clairvoyant
from tandem_operator.sim.cluster.pods import ColdStart
from tandem_operator.sim.flight import judge
from tandem_operator.sim.policy import Policy, Tandem
from tandem_operator.sim.pool import Pool, PoolSetup
from tandem_operator.sim.report import PoolReport
from tandem_operator.sim.simulate import Scenario, Simulation
from tandem_operator.sim.traces.trace import Trace

NO_FILES = Path()
GPUS = 24
STABILIZATION_S = 10.0
MINUTE_S = 60.0


def traces() -> tuple[str, ...]:
    """Return the variants of trace A, and the unseen ones with a burst."""
    return tuple(n for n, recipe in SUITE.items() if n[0] == "A" or recipe.kind == "jump")


# What a run depends on besides the core and the simulator.
MADE_BY = (Path(__file__), Path(steps.__file__), Path(other_routers.__file__))


@cache
def trace_of(name: str, folder: Path = NO_FILES) -> Trace:
    """Return the very requests of the fight in NVIDIA's replay.

    `folder` holds the public traces, for those that are made of one.
    """
    return RECIPES[name].make(folder)


def setup_of(name: str, step: Step, folder: Path = NO_FILES) -> PoolSetup:
    """Return the pool of a step."""
    recipe = RECIPES[name]
    trace = trace_of(name, folder)
    prefill, decode = recipe.start or (2, 1)
    spec = PoolSpec(
        slo=Slo(recipe.ttft_s, 0.0, recipe.itl_s, step.objective),
        roles={role: RoleSpec(1, GPUS, 1, True) for role in Role},
        mode=Mode.AUTO,
        gpu_budget=GPUS,
        stabilization_s=STABILIZATION_S,
        max_step=None,
        max_model_len=context_of(trace),
        max_num_seqs=MAX_NUM_SEQS,
        insurance=step.insurance,
    )
    return PoolSetup(
        name=name,
        spec=spec,
        trace=trace,
        profile=profile_of(Case(name, ()), NOTED),
        start={Role.PREFILL: prefill, Role.DECODE: decode},
        router=step.router,
    )


def outcome(name: str, step: Step, *, startup_s: float, folder: Path) -> dict[str, Any]:
    """Return the outcome of a step on a trace."""
    told = [name, startup_s, asdict(step) | {"what": ""}]
    return kept(told, folder, lambda: _run(name, step, startup_s), made_by=MADE_BY)


def _run(name: str, step: Step, startup_s: float) -> dict[str, Any]:
    began_s = time.process_time()
    setup = setup_of(name, step)
    policy: Policy = Tandem(tuning=step.tuning)
    if step.clairvoyant:
        policy = Clairvoyant(setup.trace, setup.profile, setup.spec, start_s=startup_s)
    scenario = Scenario(pools=(setup,), cold_start=ColdStart(startup_s), gpus=GPUS)
    simulation = Simulation(scenario, {name: policy})
    report = simulation.run()[name]
    return report.to_json() | {
        "overflowed": report.overflowed,
        "minutes": list(_minutes(simulation.pool(name), report)),
        "cpu_s": time.process_time() - began_s,
    }


def _minutes(pool: Pool, report: PoolReport) -> Iterator[dict[str, Any]]:
    """Yield the late requests of each minute of arrival, with the fleet of that minute."""
    lost: dict[int, Counter[str]] = {}
    for flight in pool.ended:
        verdict = judge(flight, pool.spec.slo)
        row = lost.setdefault(int(flight.request.at_s // MINUTE_S), Counter())
        row["requests"] += 1
        row["late_ttft"] += verdict.late_ttft
        row["late_tpot"] += verdict.late_tpot and not verdict.late_ttft
        row["overflowed"] += flight.overflowed
    for minute in sorted(lost):
        moments = [m for m in report.moments if m.at_s // MINUTE_S == minute]
        ready = {
            role.value: sum(m.ready[role] for m in moments) / max(1, len(moments)) for role in Role
        }
        yield {"minute": minute, **lost[minute], "ready": ready}
