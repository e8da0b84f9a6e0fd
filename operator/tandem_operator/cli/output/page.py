"""Pages that need nothing but themselves: a template each, and all that is put in is escaped."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tandem_operator.cli.units import amount, clock, latency, share

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

TEMPLATES = Path(__file__).with_name("templates")


def render(template: str, *, folder: Path = TEMPLATES, **values: Any) -> "Markup":
    """The text of a template in a folder, which may build on those that all pages share."""
    from markupsafe import Markup  # noqa: PLC0415

    # Only escaped text comes out of an environment that escapes.
    return Markup(_environment(folder).get_template(template).render(values))  # noqa: S704


@cache
def _environment(folder: Path) -> "Environment":
    # Most commands draw nothing, and to import it takes a tenth of a second.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415

    environment = Environment(
        autoescape=True,
        loader=FileSystemLoader([folder, TEMPLATES]),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {"amount": amount, "clock": clock, "latency": latency, "share": share}
    return environment
