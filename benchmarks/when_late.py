"""One class in an overload, with `whenLate: Serve` and `Refuse`: `-m benchmarks.when_late`.

Virtual time: the same numbers each time.
"""

import argparse
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.classes import BOUNDS, FLEET, GPUS, INTERACTIVE, JUDGED_S, LOADS
from benchmarks.simulator.__main__ import profile_of
from benchmarks.simulator.cases import Case
from benchmarks.simulator.kept import NOTED
from tandem_operator.core.role import Role
from tandem_operator.core.slo import DEFAULT_CLASS, SloClass
from tandem_operator.core.spec import Insurance, Mode, PoolSpec, RoleSpec
from tandem_operator.sim.cluster.pods import ColdStart
from tandem_operator.sim.flight import SimulatedFlight, judge
from tandem_operator.sim.policy import Policy, Static, Tandem
from tandem_operator.sim.pool import PoolSetup
from tandem_operator.sim.simulate import Scenario, Simulation
from tandem_operator.sim.traces.trace import Trace
from tandem_routing.verdict import Ending

SLO = BOUNDS[INTERACTIVE]


@dataclass(frozen=True, slots=True)
class Row:
    """The outcome of one run; shares are those of all requests, unless they say of which.

    Attributes:
        accepted: share of good requests among those that were not refused.
        false: refused requests that were good where all were served.
    """

    gpus: float
    requests: int
    good: float
    accepted: float
    refused: int
    false: int


def run(trace: Trace, *, refuse: bool, sized: bool) -> tuple[float, list[SimulatedFlight]]:
    """Serve a load; return the mean number of GPUs, and the requests that are judged."""
    spec = PoolSpec(
        slo=SLO,
        roles={role: RoleSpec(1, GPUS, 1, True) for role in Role},
        mode=Mode.AUTO,
        gpu_budget=GPUS,
        stabilization_s=60.0,
        max_step=None,
        max_model_len=20_000,
        max_num_seqs=256,
        insurance=Insurance(decode_gate=True, overflow=True),
        classes=(SloClass(DEFAULT_CLASS, SLO, refuse_late=refuse),),
    )
    setup = PoolSetup("pool", spec, trace, profile_of(Case("A", ()), NOTED), FLEET)
    policy: Policy = Tandem() if sized else Static(FLEET)
    scenario = Scenario(pools=(setup,), cold_start=ColdStart(60.0), gpus=GPUS, patience_s=120.0)
    simulation = Simulation(scenario, {"pool": policy})
    report = simulation.run()["pool"]
    ended = [f for f in simulation.pool("pool").ended if f.request.at_s <= JUDGED_S]
    return sum(report.gpu_seconds.values()) / report.end_s, ended


def compared(trace: Trace, *, sized: bool) -> tuple[Row, Row]:
    """Return the outcome with `Serve`, and with `Refuse`."""
    asked = sum(request.at_s <= JUDGED_S for request in trace.requests)
    gpus, served = run(trace, refuse=False, sized=sized)
    with_refusals, found = run(trace, refuse=True, sized=sized)
    good = {flight.number for flight in served if judge(flight, SLO).good}
    return (
        _row(gpus, asked, served, good),
        _row(with_refusals, asked, found, good),
    )


def _row(gpus: float, asked: int, ended: list[SimulatedFlight], served_well: set[int]) -> Row:
    good = sum(judge(flight, SLO).good for flight in ended)
    refused = {flight.number for flight in ended if flight.ending is Ending.TOO_LATE}
    return Row(
        gpus=gpus,
        requests=asked,
        good=good / asked,
        accepted=good / (asked - len(refused)),
        refused=len(refused),
        false=len(refused & served_well),
    )


def loads() -> dict[str, Trace]:
    """Return the loads by name: those of `benchmarks.classes`, with one class for all requests."""
    return {
        name: replace(trace, requests=tuple(replace(each, slo_class="") for each in trace.requests))
        for name in ("even, 1.5 x", "bursts, 1.5 x")
        for trace in (LOADS[name].trace(),)
    }


def main() -> None:
    """Print a table, and write it as JSON too."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.when_late", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = []
    print(
        "| fleet | load | whenLate | GPUs | requests | good | good of accepted | refused | false |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for fleet in ("2P2D", "sized"):
        for load, trace in loads().items():
            rows = compared(trace, sized=fleet == "sized")
            for when_late, row in zip(("Serve", "Refuse"), rows, strict=True):
                found.append({"fleet": fleet, "load": load, "whenLate": when_late, **asdict(row)})
                print(
                    f"| {fleet} | {load} | {when_late} | {row.gpus:.1f} | {row.requests:,}"
                    f" | {row.good:.4f} | {row.accepted:.4f} | {row.refused:,} | {row.false:,} |",
                    flush=True,
                )
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
