"""A name means one thing: no public class stands twice without a reason."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("operator", "engine", "contracts")

# The API writes `20ms` where the core counts `0.02`: the same thing at the edge and inside.
EDGE_AND_INSIDE = {"PoolSpec", "Slo"}
# The operator's image and the engine's share no code but the contracts.
TWO_IMAGES = {"Device", "Dtype", "Role"}
# `spec.router` of the API, and the process that it describes.
SPEC_AND_PROCESS = {"Router"}


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
