"""The text forms of durations, fleets and figures, as users write and read them."""

import re
from collections.abc import Mapping

from tandem_operator.api import duration_s, format_duration
from tandem_operator.cli.command_errors import BadInputError
from tandem_operator.core.role import Role

UNKNOWN = "-"
_FLEET = re.compile(r"(\d{1,4})\s*[pP]\s*(\d{1,4})\s*[dD]")
_NUMBER = re.compile(r"\d+(\.\d+)?")

Fleet = Mapping[Role, int]


def seconds(option: str, text: str, *, positive: bool = True) -> float:
    """Return the seconds of `90s`, `20m`, `1h30m`, or of a bare number.

    Raises:
        BadInputError: naming the option.
    """
    try:
        value_s = float(text) if _NUMBER.fullmatch(text) else duration_s(text)
    except ValueError:
        raise BadInputError(
            f"{option} must be a duration such as 90s, 20m or 1h30m; got {text!r}"
        ) from None
    if positive and value_s <= 0.0:
        raise BadInputError(f"{option} must be above 0, such as 60s; got {text!r}")
    return value_s


def fleet(option: str, text: str) -> Fleet:
    """Return the fleet that `5P3D` stands for.

    Raises:
        BadInputError: naming the option.
    """
    match = _FLEET.fullmatch(text.strip())
    if match is None or int(match[1]) < 1 or int(match[2]) < 1:
        raise BadInputError(
            f"{option} must be a fleet such as 5P3D (5 prefill and 3 decode replicas, at least"
            f" 1 each); got {text!r}"
        )
    return {Role.PREFILL: int(match[1]), Role.DECODE: int(match[2])}


def fleet_name(replicas: Fleet) -> str:
    """Return a fleet as `5P3D`."""
    return f"{replicas[Role.PREFILL]}P{replicas[Role.DECODE]}D"


def latency(value_s: float | None) -> str:
    """Return a latency with three digits."""
    return UNKNOWN if value_s is None else format_duration(value_s)


def share(value: float | None) -> str:
    """Return a share as a percentage with two decimal places."""
    return UNKNOWN if value is None else f"{100.0 * value:.2f}%"


def amount(value: float | None, unit: str = "") -> str:
    """Return a number with three significant digits."""
    if value is None:
        return UNKNOWN
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    text = f"{value:,.{digits}f}" if abs(value) >= 0.1 or value == 0.0 else f"{value:.3g}"
    return f"{text} {unit}".rstrip()


def duration(value_s: float) -> str:
    """Return a duration as options take it, rounded down: `1h30m`, `5m33s`, `500ms`."""
    if value_s < 1.0:
        return f"{int(1000.0 * value_s)}ms"
    minutes, rest = divmod(int(value_s), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "m"), (rest, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count)


def age(value_s: float) -> str:
    """Return the age of something, in its largest unit: `12s`, `3m`, `5h`, `2d`."""
    left = max(0, int(value_s))
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        # Below two of a unit, the next smaller unit is more exact.
        if left >= 2 * size:
            return f"{left // size}{unit}"
    return f"{left}s"


def clock(at_s: float) -> str:
    """Return the time since the start, as minutes and seconds; with hours if there are any."""
    minutes, rest = divmod(round(at_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
