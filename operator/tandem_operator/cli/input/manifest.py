"""Read one InferencePool from a YAML file; what is wrong is told with file and line."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tandem_operator.api import GROUP, KIND, InferencePool, InvalidPoolError, parse_pool
from tandem_operator.api.parse import faults
from tandem_operator.cli.command_errors import BadInputError

STANDARD_INPUT = "-"


def read_text(path: Path) -> str:
    """The text of a file, or of standard input for `-`.

    Raises:
        BadInputError: the file cannot be read.
    """
    try:
        if str(path) == STANDARD_INPUT:
            return sys.stdin.read()
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path}: is not UTF-8 text (byte {error.start})") from None
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read ({error.strerror})") from None


def read_pool(path: Path) -> InferencePool:
    """The pool in a file that holds exactly one, as for `kubectl apply`.

    Raises:
        BadInputError: no YAML, no pool or several, or a pool that Tandem cannot run.
    """
    named = [node for node in documents(path) if _plain(node, path).get("kind") == KIND]
    # The Gateway API has an InferencePool too. Alone it may be ours with a wrong apiVersion.
    pools = [node for node in named if is_pool(_plain(node, path))] or named
    if len(pools) != 1:
        found = "no InferencePool" if not pools else f"{len(pools)} InferencePools"
        raise BadInputError(f"{path}: holds {found}; expected exactly one")
    [node] = pools
    try:
        return parse_pool(_plain(node, path), strict=True)
    except InvalidPoolError as error:
        if not isinstance(error.__cause__, ValidationError):
            raise BadInputError(f"{path}:{_line(node)}: {error}") from None
        wrong = [
            f"{path}:{_line_of(node, _way(fault))}: {text}"
            for text, fault in faults(error.__cause__).items()
        ]
        raise BadInputError("\n".join(wrong)) from None


def is_pool(obj: Mapping[str, Any]) -> bool:
    """Whether an object is Tandem's InferencePool, of whatever version."""
    group, _, _ = str(obj.get("apiVersion", "")).partition("/")
    return (group, obj.get("kind")) == (GROUP, KIND)


def documents(path: Path) -> Iterator[yaml.Node]:
    """The objects in a file: its documents, and the items of its Lists.

    Raises:
        BadInputError: no YAML, or a key given twice, of which YAML would keep the last in silence.
    """
    text = read_text(path)
    try:
        for node in yaml.compose_all(text, Loader=yaml.SafeLoader):
            if node is not None:
                _refuse_repeated_keys(node, path)
                yield from _items(node, path)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark is not None else f"{path}"
        problem = getattr(error, "problem", None) or "cannot be parsed"
        raise BadInputError(f"{where}: is not YAML: {problem}") from None


def objects(path: Path) -> list[dict[str, Any]]:
    """The objects in a file as plain data."""
    return [_plain(node, path) for node in documents(path)]


def _items(node: yaml.Node, path: Path) -> Iterator[yaml.Node]:
    items = _child(node, "items")
    kind = str(_plain(node, path).get("kind", ""))
    if isinstance(items, yaml.SequenceNode) and kind.endswith("List"):
        yield from items.value
    else:
        yield node


def _refuse_repeated_keys(root: yaml.Node, path: Path) -> None:
    # Aliases let a node stand in several places, within itself too.
    seen: set[int] = set()
    open_nodes = [root]
    while open_nodes:
        node = open_nodes.pop()
        if id(node) in seen or not isinstance(node, yaml.CollectionNode):
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            open_nodes += node.value
            continue
        first: dict[str, int] = {}
        for key, value in node.value:
            open_nodes.append(value)
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in first:
                raise BadInputError(
                    f"{path}:{_line(key)}: {key.value!r} is given here and on line"
                    f" {first[key.value]}; keep one of the two"
                )
            first[key.value] = _line(key)


def _plain(node: yaml.Node, path: Path) -> dict[str, Any]:
    loader = yaml.SafeLoader("")
    try:
        value = loader.construct_document(node)
    except yaml.constructor.ConstructorError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else _line(node)
        raise BadInputError(f"{path}:{line}: {error.problem}") from None
    finally:
        loader.dispose()
    return value if isinstance(value, dict) else {}


def _way(fault: ErrorDetails) -> list[int | str]:
    """The steps to the field at fault; a rule over several fields names the one to change."""
    named = str(fault.get("ctx", {}).get("field", ""))
    return [*fault["loc"], *filter(None, named.split("."))]


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _line_of(node: yaml.Node, steps: Sequence[int | str]) -> int:
    """The line of the field at the end of `steps`; of the last part of the way that is there."""
    line = _line(node)
    for step in steps:
        key = _key(node, step)
        found = _child(node, step)
        if found is None:
            continue
        line = _line(key if key is not None else found)
        node = found
    return line


def _key(node: yaml.Node, step: int | str) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        return next((key for key, _ in node.value if key.value == step), None)
    return None


def _child(node: yaml.Node, step: int | str) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if key.value == step), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        found: yaml.Node = node.value[step]
        return found
    return None
