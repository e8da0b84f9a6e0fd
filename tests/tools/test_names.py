"""A name means one thing: no public class stands twice without a reason."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("operator", "engine", "contracts")

# The API writes `20ms` where the core counts `0.02`: the same thing at the edge and inside.
EDGE_AND_INSIDE = {"PoolSpec", "Slo", "SloClass"}
# The operator's image and the engine's share no code but the contracts.
TWO_IMAGES = {"Device", "Dtype", "Role"}
# `spec.router` of the API, and the process that it describes.
SPEC_AND_PROCESS = {"Router"}

# A file has the name of its part of the API, of the room that it tunes, of the live part that it
# simulates, or of its command.
API = {"fleet.py", "placement.py", "pool.py", "router.py", "slo.py"}
TUNED = {"guard.py", "observe.py", "quota.py"}
SIMULATED = {"flight.py", "ledger.py", "pod_finder.py"}
COMMANDS = {"simulate.py"}
# What an image starts with; the document of `/arrivals`, and what the core makes of it.
PROGRAMS = {"app.py", "entry.py", "options.py", "__init__.py", "__main__.py"}
DOCUMENTS = {"arrivals.py"}


def test_no_public_class_stands_twice_without_a_reason() -> None:
    files = defaultdict(list)
    for source in SOURCES:
        for path in sorted((ROOT / source).rglob("*.py")):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    files[node.name].append(str(path.relative_to(ROOT)))

    twice = {name: where for name, where in files.items() if len(where) > 1}

    assert len(files) > 300
    assert twice.keys() == EDGE_AND_INSIDE | TWO_IMAGES | SPEC_AND_PROCESS, twice


def test_no_file_has_the_name_of_another_without_a_reason() -> None:
    paths = defaultdict(list)
    for source in SOURCES:
        for path in sorted((ROOT / source).rglob("*.py")):
            paths[path.name].append(str(path.relative_to(ROOT)))

    twice = {name for name, where in paths.items() if len(where) > 1}

    assert twice == API | TUNED | SIMULATED | COMMANDS | PROGRAMS | DOCUMENTS
