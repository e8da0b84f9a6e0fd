"""The command class that all commands use, and bundles of options spelled out as single ones."""

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from typing import Any, get_type_hints

import typer
from typer.core import TyperCommand

from tandem_operator.cli.command_errors import BAD_INPUT, EXIT_BAD_INPUT, EXIT_FAILED, FailedError
from tandem_operator.cli.output.destination import STANDARD_OUTPUT
from tandem_operator.cli.output.printable import printable

BARE_OUTPUTS = frozenset({"--json", "--markdown"})


class TandemCommand(TyperCommand):
    """A command that reports an error in one sentence and can print its outputs on the screen."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read an output option without a file as standard output."""
        arguments: list[str] = []
        for here, after in zip(args, [*args[1:], "--"], strict=False):
            arguments.append(here)
            if here in BARE_OUTPUTS and after.startswith("-") and after != STANDARD_OUTPUT:
                arguments.append(STANDARD_OUTPUT)
        return super().parse_args(ctx, arguments)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; exit with 2 after a fault of the input, with 1 after any other."""
        try:
            return super().invoke(ctx)
        except BAD_INPUT as error:
            typer.echo(printable(f"{ctx.command_path}: {error}"), err=True)
            raise typer.Exit(EXIT_BAD_INPUT) from None
        except FailedError as error:
            typer.echo(printable(f"{ctx.command_path}: {error}"), err=True)
            raise typer.Exit(EXIT_FAILED) from None


def spelled_out(function: Callable[..., None]) -> Callable[..., None]:
    """Return the function with each dataclass of options replaced by its fields as parameters."""
    hints = get_type_hints(function, include_extras=True)
    bundles: dict[str, type[Any]] = {
        name: kind
        for name, kind in hints.items()
        if isinstance(kind, type) and dataclasses.is_dataclass(kind)
    }
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name not in bundles:
            parameters.append(parameter.replace(annotation=hints[name]))
            continue
        parameters += [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=get_type_hints(bundles[name], include_extras=True)[field.name],
                default=(
                    inspect.Parameter.empty
                    if field.default is dataclasses.MISSING
                    else field.default
                ),
            )
            for field in dataclasses.fields(bundles[name])
        ]

    def spelled(**values: Any) -> None:
        for name, kind in bundles.items():
            names = [field.name for field in dataclasses.fields(kind)]
            values[name] = kind(**{each: values.pop(each) for each in names})
        function(**values)

    spelled.__doc__ = function.__doc__
    spelled.__name__ = function.__name__
    spelled.__annotations__ = {}
    spelled.__signature__ = inspect.Signature(_required_first(parameters))  # type: ignore[attr-defined]
    return spelled


def _required_first(parameters: Sequence[inspect.Parameter]) -> list[inspect.Parameter]:
    keyword = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
    return sorted(keyword, key=lambda p: p.default is not inspect.Parameter.empty)
