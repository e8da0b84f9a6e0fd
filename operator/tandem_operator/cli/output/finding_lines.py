"""Findings of `tandem lint` for people and editors, for programs, and for GitHub Actions."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from enum import StrEnum

from tandem_operator.cli.input.finding import Finding
from tandem_operator.cli.input.findings import Linted
from tandem_operator.cli.output.printable import printable


class LintFormat(StrEnum):
    """The form of findings."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"


def rendered(linted: Linted, form: LintFormat) -> Iterator[str]:
    """Yield the lines for standard output."""
    if form is LintFormat.JSON:
        yield json.dumps(asdict(linted), indent=1)
        return
    line_of = _annotation if form is LintFormat.GITHUB else _line
    yield from (printable(line_of(each)) for each in linted.findings)


def told_beside(linted: Linted) -> Iterator[str]:
    """Yield the lines for standard error: files that could not be read, and the summary."""
    yield from map(printable, linted.unreadable)
    yield summary(linted)


def summary(linted: Linted) -> str:
    """Return how much was read, and how much of it is wrong."""
    return (
        f"{_count(len(linted.findings), 'finding')} in {_count(linted.pools, 'InferencePool')};"
        f" {_count(linted.skipped, 'other object')} skipped"
    )


def _line(finding: Finding) -> str:
    return f"{finding.file}:{finding.line}: {_words(finding)}"


def _words(finding: Finding) -> str:
    return f"{finding.field}: {finding.sentence}"


def _annotation(finding: Finding) -> str:
    where = {"file": finding.file, "line": str(finding.line), "title": "InferencePool"}
    properties = ",".join(f"{name}={_property(value)}" for name, value in where.items())
    return f"::{finding.severity} {properties}::{_data(_words(finding))}"


def _data(text: str) -> str:
    """Return the text escaped as GitHub's own toolkit does it."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
