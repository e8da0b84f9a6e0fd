"""The reader of one InferencePool in a YAML file; errors name file and line."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tandem_operator.api import GROUP, KIND, InferencePool, InvalidPoolError, parse_pool
from tandem_operator.api.stored import without_nulls
from tandem_operator.cli.command_errors import BadInputError
from tandem_operator.cli.input.yaml_object import YamlError, YamlObject, objects_in

STANDARD_INPUT = "-"


def read_text(path: Path) -> str:
    """Return the text of a file, or of standard input for `-`.

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
    """Return the pool in a file that holds exactly one, as for `kubectl apply`.

    Raises:
        BadInputError: no YAML, no pool or several, or a pool that Tandem cannot run.
    """
    named = [found for found in yaml_objects(path) if found.word("kind") == KIND]
    # The Gateway API has an InferencePool too. A single one may be ours with a wrong apiVersion.
    pools = [found for found in named if is_pool(_plain(found, path))] or named
    if len(pools) != 1:
        what = "no InferencePool" if not pools else f"{len(pools)} InferencePools"
        raise BadInputError(f"{path}: holds {what}; expected exactly one")
    [found] = pools
    try:
        return parse_pool(without_nulls(_plain(found, path)), strict=True)
    except InvalidPoolError as error:
        wrong = [f"{path}:{found.line(each.steps)}: {each}" for each in error.faults]
        raise BadInputError("\n".join(wrong)) from None


def is_pool(obj: Mapping[str, Any]) -> bool:
    """Return whether an object is Tandem's InferencePool, of any version."""
    group, _, _ = str(obj.get("apiVersion", "")).partition("/")
    return (group, obj.get("kind")) == (GROUP, KIND)


def objects(path: Path) -> list[dict[str, Any]]:
    """Return the objects in a file as plain data."""
    return [_plain(found, path) for found in yaml_objects(path)]


def yaml_objects(path: Path) -> Iterator[YamlObject]:
    """Yield the objects in a file.

    Raises:
        BadInputError: no YAML, or a repeated key: YAML would silently keep only the last.
    """
    text = read_text(path)
    try:
        for found in objects_in(text):
            for twice in found.repeated():
                raise BadInputError(f"{path}:{twice.line}: {twice}")
            yield found
    except YamlError as error:
        raise BadInputError(f"{path}{error.where}: {error}") from None


def _plain(found: YamlObject, path: Path) -> dict[str, Any]:
    try:
        return found.plain()
    except YamlError as error:
        raise BadInputError(f"{path}{error.where}: {error}") from None
