"""Is every decision still what it was? `python -m benchmarks.same record FILE`, then `check FILE`.

Runs the core on the promise benchmark's quick cases and on the traces of `benchmarks.beyond`, on
bare engines and behind the live router. A change of structure alone changes no decision, sentence
or figure.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.beyond.run import GPUS, setup_of, traces
from benchmarks.beyond.steps import STEPS
from benchmarks.promise.cases import Case, pool_of
from benchmarks.promise.quick import QUICK
from benchmarks.promise.runs import run
from tandem_operator.core.decision import Decision
from tandem_operator.sim.cluster.pods import ColdStart
from tandem_operator.sim.policy import Tandem
from tandem_operator.sim.simulate import Scenario, simulate

# How the traces are served: the engines alone, and everything that runs live.
BEYOND = ("engines", "live")
START_UP_S = 40.0
PART = 60

Found = dict[str, Any]


def main() -> None:
    """Record, or compare with what was recorded; exit 1 where anything differs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.same", description=__doc__)
    parser.add_argument("do", choices=("record", "check"))
    parser.add_argument("file", type=Path, help="what was recorded, as JSON")
    parser.add_argument("-j", "--processes", type=int, default=2)
    options = parser.parse_args()
    names = [f"promise {case.name}" for case in QUICK]
    names += [f"{step} {trace}" for step in BEYOND for trace in traces()]
    found: dict[str, Found] = {}
    with get_context("fork").Pool(options.processes, maxtasksperchild=4) as pool:
        for name, each in pool.imap_unordered(decided, names):
            found[name] = each
            print(f"{len(found):3}/{len(names)} {name}", flush=True)
    if options.do == "record":
        options.file.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
        return
    unlike = differences(json.loads(options.file.read_text()), found)
    print("\n".join(unlike) or f"all {len(found)} runs are as they were recorded")
    sys.exit(1 if unlike else 0)


def decided(name: str) -> tuple[str, Found]:
    """Return the figures of one run, and a hash of each `PART` decisions."""
    kind, _, of = name.partition(" ")
    if kind == "promise":
        policy = Tandem()
        case: Case = next(case for case in QUICK if case.name == of)
        figures = dict(run(case, pool_of(case, None), policy))
        del figures["cpu_s"]
    else:
        policy = Tandem(tuning=STEPS[kind].tuning)
        scenario = Scenario(pools=(), cold_start=ColdStart(START_UP_S), gpus=GPUS)
        figures = simulate(setup_of(of, STEPS[kind]), policy, scenario).to_json()
    hashes = hashed(policy.decisions)
    return name, {"figures": json.loads(json.dumps(figures)), "decisions": hashes}


def hashed(decisions: Sequence[Decision]) -> list[str]:
    """Return one hash for each `PART` decisions: counts, reasons, and the numbers behind them."""
    told = [
        json.dumps(
            [
                decision.at_s,
                decision.sentence,
                decision.slo_feasible,
                {role.value: [d.to, d.wanted, d.reason] for role, d in decision.roles.items()},
                decision.inputs,
                decision.next_tick_s,
            ],
            sort_keys=True,
        )
        for decision in decisions
    ]
    parts = ("\n".join(told[at : at + PART]) for at in range(0, len(told), PART))
    return [hashlib.sha256(part.encode()).hexdigest()[:12] for part in parts]


def differences(before: Mapping[str, Found], after: Mapping[str, Found]) -> list[str]:
    """Return a line for each run that differs, with the first decisions or figures that do."""
    lines = []
    for name in sorted({*before, *after}):
        if name not in before or name not in after:
            lines.append(f"{name}: only {'recorded' if name in before else 'run'}")
            continue
        old, new = before[name], after[name]
        pairs = zip(old["decisions"], new["decisions"], strict=False)
        at = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
        if at is not None:
            lines.append(f"{name}: decisions {PART * at + 1} to {PART * (at + 1)} differ")
        elif old != new:
            keys = sorted(k for k in old["figures"] if old["figures"][k] != new["figures"].get(k))
            lines.append(f"{name}: {', '.join(keys) or 'the number of decisions'} differ")
    return lines


if __name__ == "__main__":
    main()
