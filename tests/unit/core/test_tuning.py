"""One tuning goes from `decide` to every step: no step falls back to what ships."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tandem_operator import core

CORE = Path(core.__file__).parent


def trees() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(CORE.rglob("*.py")):
        yield path, ast.parse(path.read_text())


def parameters(node: ast.FunctionDef) -> list[str]:
    return [each.arg for each in (*node.args.args, *node.args.kwonlyargs)]


def tuned_names() -> set[str]:
    """Functions with a parameter `tuning`, and classes with a field of that name."""
    found = set()
    for _, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and "tuning" in parameters(node):
                found.add(node.name)
            if isinstance(node, ast.ClassDef) and any(
                isinstance(each, ast.AnnAssign)
                and isinstance(each.target, ast.Name)
                and each.target.id == "tuning"
                for each in node.body
            ):
                found.add(node.name)
    return found


def called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def test_every_call_of_a_tuned_step_passes_the_tuning_on() -> None:
    tuned = tuned_names()

    forgotten = [
        f"{path.relative_to(CORE)}:{node.lineno} {called(node)}"
        for path, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and called(node) in tuned
        and not any(each.arg == "tuning" for each in node.keywords)
    ]

    assert forgotten == []
