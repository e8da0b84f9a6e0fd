"""Durations, percentages, quantities: strings outside, SI numbers inside; and bounded text.

Every string type carries a length bound, because the API server prices a CEL rule by it.
"""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated

from pydantic import Field, Strict

from tandem_operator.api.rules import Rule

_SECONDS_PER_UNIT = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION_PART = r"([0-9]{1,6}(?:\.[0-9]{1,3})?)(ms|s|m|h)"
_DURATION = "^([0-9]{1,6}([.][0-9]{1,3})?(ms|s|m|h))+$"
_PERCENTAGE = "^[0-9]{1,2}([.][0-9]{1,3})?%$"
_PORT = "([1-9][0-9]{0,3}|[1-5][0-9]{4}|6([0-4][0-9]{3}|5([0-4][0-9]{2}|5([0-2][0-9]|3[0-5]))))"
_QUANTITY = re.compile(
    r"(?P<number>([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,2})?)(?P<unit>[a-zA-Z]{0,2})"
)
_MULTIPLIERS = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    **{unit: Decimal(1000) ** power for power, unit in enumerate("kMGTPE", start=1)},
    **{f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", start=1)},
}


def duration_s(text: str) -> float:
    """Seconds of a duration such as `500ms`, `1.5s` or `1m30s`."""
    if not re.fullmatch(_DURATION, text):
        raise ValueError(f"{text!r} is no duration; write for example 500ms, 1.5s or 1m30s")
    parts = re.findall(_DURATION_PART, text)
    return sum(float(number) * _SECONDS_PER_UNIT[unit] for number, unit in parts)


def format_duration(seconds: float) -> str:
    """A duration of three significant digits for people: `12.3ms`, `412ms`, `1.5s`."""
    if seconds < 1:
        return f"{_three_digits(seconds * 1000)}ms"
    return f"{_three_digits(seconds)}s"


def ratio(percentage: str) -> float:
    """The share between 0 and 1 that a percentage such as `99.5%` stands for."""
    if not re.fullmatch(_PERCENTAGE, percentage):
        raise ValueError(f"{percentage!r} is no percentage below 100%; write for example 99%")
    return float(percentage[:-1]) / 100


def format_ratio(share: float) -> str:
    """A share between 0 and 1 as a percentage with one digit behind the point."""
    return f"{share * 100:.1f}%"


def format_rate(per_second: float) -> str:
    """A rate with three significant digits; the field's description names its unit."""
    return _three_digits(per_second)


def quantity(value: int | str) -> Decimal:
    """The number a Kubernetes quantity such as `64Mi`, `500m` or `2` stands for."""
    match = _QUANTITY.fullmatch(str(value))
    if match is None or match["unit"] not in _MULTIPLIERS:
        raise ValueError(f"{value!r} is no quantity; write for example 500m, 2 or 64Mi")
    return Decimal(match["number"]) * _MULTIPLIERS[match["unit"]]


def _three_digits(number: float) -> str:
    digits = 0 if number >= 100 else 1 if number >= 10 else 2
    text = f"{number:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _holds(parse: Callable[[str], float], low: float, high: float) -> Callable[[str], bool]:
    def within(text: str) -> bool:
        try:
            return low <= parse(text) <= high
        except ValueError:
            return False

    return within


def duration_rule(*, name: str, example: str, least: str, most: str) -> Rule:
    """A duration between two others; `name` is how the sentence calls the field."""
    return Rule(
        expression=(
            f"self.matches('{_DURATION}') && duration(self) >= duration('{least}')"
            f" && duration(self) <= duration('{most}')"
        ),
        message=f"{name} must be a duration from {least} to {most}; write for example {example}",
        holds=_holds(duration_s, duration_s(least), duration_s(most)),
    )


def percentage_rule(*, name: str, example: str, least: str, most: str) -> Rule:
    """A percentage between two others, itself below 100%."""
    number = "double(self.substring(0, self.size() - 1))"
    low, high = (float(bound[:-1]) for bound in (least, most))
    return Rule(
        expression=f"self.matches('{_PERCENTAGE}') && {number} >= {low} && {number} <= {high}",
        message=f"{name} must be a percentage from {least} to {most}; write for example {example}",
        holds=_holds(lambda text: 100 * ratio(text), low - 1e-9, high + 1e-9),
    )


def is_positive_quantity(value: int | str) -> bool:
    """Whether it is a quantity above zero."""
    try:
        return quantity(value) > 0
    except ValueError:
        return False


def text_rule(*, pattern: str, message: str, never: str | None = None) -> Rule:
    """A string that matches an RE2 pattern, with a sentence instead of the pattern as message.

    `never` is a pattern that no part of it may match.
    """
    matches = re.compile(pattern).fullmatch
    if never is None:
        return Rule(
            expression=f"self.matches(r'{pattern}')",
            message=message,
            holds=lambda text: matches(text) is not None,
        )
    within = re.compile(never).search
    return Rule(
        expression=f"self.matches(r'{pattern}') && !self.matches(r'{never}')",
        message=message,
        holds=lambda text: matches(text) is not None and within(text) is None,
    )


def digest_rule(*, name: str) -> Rule:
    """A SHA-256 digest of an API key; `name` is how the sentence calls the field."""
    return text_rule(
        pattern="^sha256:[0-9a-f]{64}$",
        message=(
            f"{name} must be SHA-256 digests of API keys; write sha256: and 64 hexadecimal digits"
        ),
    )


def url_rule(*, name: str, example: str) -> Rule:
    """An http or https URL of a host, a port and a plain path."""
    return text_rule(
        pattern=(
            r"^https?://([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])"
            rf"(:{_PORT})?(/[-A-Za-z0-9._~]+)*/?$"
        ),
        never="[.][.]|/[.](/|$)",
        message=(
            f"{name} must be an http or https URL of a host, a port up to 65535 and a plain"
            f" path, without user, query, fragment or '..'; write for example {example}"
        ),
    )


Count = Annotated[int, Strict()]
Flag = Annotated[bool, Strict()]
Duration = Annotated[str, Field(max_length=16)]
Percentage = Annotated[str, Field(max_length=8)]
Quantity = Annotated[Annotated[int, Strict()] | Annotated[str, Field(max_length=32)], Field()]
PositiveQuantity = Annotated[
    Quantity,
    Rule(
        expression=(
            "type(self) == string ? isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))"
            " : self > 0"
        ),
        message="amount must be a quantity above zero; write for example 500m, 2 or 64Mi",
        holds=is_positive_quantity,
    ),
]
DnsName = Annotated[
    str,
    Field(max_length=253),
    text_rule(
        pattern="^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
        message=(
            "name must hold only lower-case letters, digits, '-' and '.';"
            " write for example weights-1"
        ),
    ),
]
ImageReference = Annotated[
    str,
    Field(max_length=512),
    text_rule(
        pattern="^[A-Za-z0-9][A-Za-z0-9._:/@-]*$",
        message=(
            "image must be an image reference without spaces, such as ghcr.io/acme/engine:1.2;"
            " leave it out for the image the operator was installed with"
        ),
    ),
]
