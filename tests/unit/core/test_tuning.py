"""One tuning goes from `decide` to every step: no step falls back to what ships."""

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from tandem_operator import core
from tandem_operator.core.tuning.tuning import TUNING

CORE = Path(core.__file__).parent


def trees() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(CORE.rglob("*.py")):
        yield path, ast.parse(path.read_text())


def parameters(node: ast.FunctionDef) -> list[str]:
    return [each.arg for each in (*node.args.args, *node.args.kwonlyargs)]


def key(path: Path, name: str) -> str:
    """Return the key of a name; a private name belongs to its file."""
    return f"{path}:{name}" if name.startswith("_") else name


def has_field(node: ast.ClassDef) -> bool:
    return any(
        isinstance(each, ast.AnnAssign)
        and isinstance(each.target, ast.Name)
        and each.target.id == "tuning"
        for each in node.body
    )


def tuned_names() -> tuple[set[str], set[str]]:
    """Return the functions and classes that take a `tuning`, and methods that do."""
    functions, methods = set[str](), set[str]()
    for path, tree in trees():
        inside = set[ast.FunctionDef]()
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                own = [each for each in node.body if isinstance(each, ast.FunctionDef)]
                inside.update(own)
                tuned = {each.name for each in own if "tuning" in parameters(each)}
                if has_field(node) or "__init__" in tuned:
                    functions.add(key(path, node.name))
                methods |= {key(path, name) for name in tuned - {"__init__"}}
            elif isinstance(node, ast.FunctionDef) and node not in inside:
                functions |= {key(path, node.name)} if "tuning" in parameters(node) else set()
    return functions, methods


def called(node: ast.Call) -> ast.expr:
    """Return the callee, whether it is called now or by the `partial` that this makes."""
    partial = isinstance(node.func, ast.Name) and node.func.id == "partial"
    return node.args[0] if partial else node.func


def test_every_call_of_a_tuned_step_passes_the_tuning_on() -> None:
    functions, methods = tuned_names()

    def is_tuned(path: Path, what: ast.expr) -> bool:
        if isinstance(what, ast.Attribute):
            return key(path, what.attr) in methods
        return isinstance(what, ast.Name) and key(path, what.id) in functions

    forgotten = [
        f"{path.relative_to(CORE)}:{node.lineno} {ast.unparse(called(node))}"
        for path, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and is_tuned(path, called(node))
        and not any(each.arg == "tuning" for each in node.keywords)
    ]

    assert not forgotten, "\n".join(forgotten)


def test_nothing_below_decide_reads_what_ships_behind_the_back_of_what_was_passed() -> None:
    # A memory's first price is what ships: it is made before any tuning is passed.
    first_price = "learn/correction.py"

    read = [
        f"{path.relative_to(CORE)}:{node.lineno} {ast.unparse(node)}"
        for path, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Attribute)
        and isinstance(node.value.value, ast.Name)
        and node.value.value.id == "TUNING"
    ]

    assert [each for each in read if not each.startswith(first_price)] == []


def test_every_number_is_read_somewhere_in_the_core() -> None:
    code = "\n".join(
        path.read_text() for path in CORE.rglob("*.py") if path.parent.name != "tuning"
    )

    unread = [
        f"{room.name}.{number.name}"
        for room in fields(TUNING)
        for number in fields(getattr(TUNING, room.name))
        if not re.search(rf"\.{number.name}\b", code)
    ]

    assert unread == []
