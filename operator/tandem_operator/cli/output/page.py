"""Pages without external files: a template each; all inserted text is escaped."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tandem_operator.cli.units import amount, clock, latency, share

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

TEMPLATES = Path(__file__).with_name("templates")


def render(template: str, *, folder: Path = TEMPLATES, **values: Any) -> "Markup":
    """Return the text of a template in a folder; it may extend the templates of all pages."""
    from markupsafe import Markup  # noqa: PLC0415

    # An environment with escaping returns only escaped text.
    return Markup(_environment(folder).get_template(template).render(values))  # noqa: S704


@cache
def _environment(folder: Path) -> "Environment":
    # Most commands draw nothing, and the import takes a tenth of a second.
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
