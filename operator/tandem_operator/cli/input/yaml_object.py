"""The objects of a YAML text as kubectl sends them, with the lines of their fields."""

import copy
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import yaml

from tandem_operator.cli.input.yaml_scalars import MERGE, NULL, KubectlLoader

_LARGEST_OBJECT = 10_000_000
"""Most characters of one object with its aliases written out; the API server takes 3 MB."""


class YamlError(ValueError):
    """The text is not YAML, or holds something that JSON cannot."""

    def __init__(self, problem: str, line: int | None) -> None:
        self.where = "" if line is None else f":{line}"
        super().__init__(problem)


@dataclass(frozen=True, slots=True)
class RepeatedKey:
    """A key that an object has twice; YAML would silently keep only the last."""

    key: str
    path: str
    line: int
    first_line: int

    def __str__(self) -> str:
        return f"{self.key!r} is given here and on line {self.first_line}; keep one of the two"


@dataclass(frozen=True, slots=True)
class YamlObject:
    """One object; only the requested parts of it are read."""

    node: yaml.Node

    def word(self, field: str) -> str:
        """Return the text of a field at the top of the object; empty if it has none."""
        found = _child(self.node, field)
        return found.value if isinstance(found, yaml.ScalarNode) else ""

    def plain(self) -> dict[str, Any]:
        """Return the object as plain data; empty if this is no object.

        Raises:
            YamlError: it holds something that JSON cannot.
        """
        loader = KubectlLoader("")
        try:
            if _written_out(self.node, {}) > _LARGEST_OBJECT:
                raise YamlError("holds too much; write it with fewer aliases", self.line())
            # PyYAML writes merged keys into the node, which an item of the same List may share.
            value = loader.construct_document(copy.deepcopy(self.node))
            # Keys become texts, as on the way to the API server.
            value = json.loads(json.dumps(value, default=str))
        except yaml.constructor.ConstructorError as error:
            mark = error.problem_mark
            line = self.line() if mark is None else mark.line + 1
            raise YamlError(str(error.problem), line) from None
        except YamlError:
            raise
        except (TypeError, ValueError, RecursionError):
            raise YamlError("holds what JSON cannot, such as itself", self.line()) from None
        finally:
            loader.dispose()
        return value if isinstance(value, dict) else {}

    def line(self, steps: Sequence[int | str] = ()) -> int:
        """Return the line of the field at the end of `steps`, or of the last part that exists.

        A step into a list is a position, or the `name` of an item.
        """
        node, line = self.node, _line(self.node)
        for step in steps:
            found = _child(node, step)
            if found is None:
                continue
            key = _fields(node).get(str(step))
            line = _line(found if key is None else key[0])
            node = found
        return line

    def repeated(self) -> Iterator[RepeatedKey]:
        """Yield the keys that appear twice."""
        # Aliases let a node appear in several places, also within itself.
        seen: set[int] = set()
        open_nodes = [("", self.node)]
        while open_nodes:
            path, node = open_nodes.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            if isinstance(node, yaml.SequenceNode):
                open_nodes += [(f"{path}[{at}]", item) for at, item in enumerate(node.value)]
            elif isinstance(node, yaml.MappingNode):
                open_nodes += [(_below(path, key), value) for key, value in node.value]
                yield from _repeated(node, path)


def objects_in(text: str) -> Iterator[YamlObject]:
    """Yield the objects of a text: its documents, and the items of its Lists.

    Raises:
        YamlError: it is no YAML from here on.
    """
    try:
        for node in yaml.compose_all(text, Loader=KubectlLoader):
            if node is None or node.tag == NULL:
                continue
            document = YamlObject(node)
            items = _child(node, "items")
            if isinstance(items, yaml.SequenceNode) and document.word("kind").endswith("List"):
                yield from map(YamlObject, items.value)
            else:
                yield document
    except RecursionError:
        raise YamlError("is nested too deeply", None) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "cannot be parsed"
        line = None if mark is None else mark.line + 1
        if isinstance(error, yaml.reader.ReaderError):
            problem, line = error.reason, text.count("\n", 0, error.position) + 1
        raise YamlError(f"is not YAML: {problem}", line) from None


def _written_out(node: yaml.Node, known: dict[int, int | None]) -> int:
    """Return about how many characters a node has with each alias written out.

    Raises:
        ValueError: the node holds itself.
    """
    if id(node) not in known:
        known[id(node)] = None
        known[id(node)] = 1 + (
            len(node.value)
            if isinstance(node, yaml.ScalarNode)
            else sum(_written_out(each, known) for each in _inside(node))
        )
    found = known[id(node)]
    if found is None:
        raise ValueError
    return found


def _inside(node: yaml.Node) -> Iterator[yaml.Node]:
    for each in node.value:
        yield from each if isinstance(each, tuple) else (each,)


def _below(path: str, key: yaml.Node) -> str:
    return f"{path}.{key.value}".lstrip(".")


def _repeated(node: yaml.MappingNode, path: str) -> Iterator[RepeatedKey]:
    first: dict[str, int] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            continue
        if key.value in first and key.tag != MERGE:
            yield RepeatedKey(key.value, _below(path, key), _line(key), first[key.value])
        first.setdefault(key.value, _line(key))


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


@lru_cache(maxsize=64)
def _fields(node: yaml.Node) -> dict[str, tuple[yaml.Node, yaml.Node]]:
    """Return key and value of each field by its name, the first of two; a list has none."""
    if not isinstance(node, yaml.MappingNode):
        return {}
    named = [each for each in node.value if isinstance(each[0], yaml.ScalarNode)]
    return {key.value: (key, value) for key, value in reversed(named)}


def _child(node: yaml.Node, step: int | str) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        return _fields(node).get(str(step), (None, None))[1]
    if not isinstance(node, yaml.SequenceNode):
        return None
    for place, item in enumerate(node.value):
        if place == step or (isinstance(step, str) and YamlObject(item).word("name") == step):
            found: yaml.Node = item
            return found
    return None
