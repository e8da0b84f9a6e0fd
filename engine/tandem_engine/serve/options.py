"""The command line, generated from the settings model, and its errors as one sentence each."""

import argparse
from collections.abc import Sequence
from enum import StrEnum
from types import NoneType
from typing import Any, NoReturn, get_args

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from tandem_engine.serve.engine_settings import EngineSettings


class OptionError(Exception):
    """A command line that cannot work; the text names the option and a value that works."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise OptionError(message)


def parse(arguments: Sequence[str]) -> tuple[EngineSettings, bool]:
    """Return the settings, and whether the command should only be printed."""
    given = vars(_parser().parse_args(list(arguments)))
    print_command = given.pop("print_command")
    try:
        return EngineSettings.model_validate(given), print_command
    except ValidationError as error:
        raise OptionError("; ".join(_sentence(problem) for problem in error.errors())) from None


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="tandem-engine serve",
        description="Run one vLLM engine of a pool: prefill or decode.",
        epilog="Environment: POD_IP, this pod's address for KV transfer; HF_TOKEN for gated "
        "models; TANDEM_REVISION, shown by /info; TANDEM_ENGINE_KEY, which callers must then have.",
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    for name, field in EngineSettings.model_fields.items():
        parser.add_argument(
            f"--{name.replace('_', '-')}", dest=name, required=field.is_required(), **_kind(field)
        )
    parser.add_argument(
        "--print-command",
        action="store_true",
        default=False,
        help="print vLLM's environment and command line as a shell would take them, and stop",
    )
    return parser


def _kind(field: FieldInfo) -> dict[str, Any]:
    help_text = (field.description or "").replace("%", "%%")
    types = [kind for kind in (get_args(field.annotation) or (field.annotation,)) if kind]
    if field.annotation == tuple[str, ...]:
        return {"action": "append", "metavar": "ARGUMENT", "help": help_text}
    if bool in types:
        return {"action": argparse.BooleanOptionalAction, "help": help_text}
    choices = [member for kind in types if _is_enum(kind) for member in kind]
    default = "" if field.is_required() or field.default is None else f" (default {field.default})"
    metavar = "{" + ",".join(choices) + "}" if choices else _metavar(types)
    return {"metavar": metavar, "help": help_text + default}


def _metavar(types: Sequence[Any]) -> str:
    names = {int: "N", float: "S", str: "TEXT"}
    return next((names[kind] for kind in types if kind in names), "N")


def _is_enum(kind: Any) -> bool:
    return isinstance(kind, type) and kind is not NoneType and issubclass(kind, StrEnum)


def _sentence(problem: Any) -> str:
    text = str(problem["msg"]).removeprefix("Value error, ")
    if not problem["loc"]:
        return text
    option = "--" + str(problem["loc"][0]).replace("_", "-")
    return f"{option}: {text[:1].lower()}{text[1:]}, not {problem['input']!r}"
