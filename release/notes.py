"""The notes of a release, cut out of CHANGELOG.md."""

from __future__ import annotations

import re

from e2e.cluster.progress import CannotContinueError

_UNRELEASED = "Unreleased"
_HEADING = re.compile(r"^## +\[?([^]\s]+)\]?(?: .*)?$", re.MULTILINE)


def notes_of(changelog: str, version: str, *, trial: bool) -> str:
    """The section of a version; a trial takes what is not released yet if it has none."""
    sections = dict(_sections(changelog))
    found = sections.get(version) or (sections.get(_UNRELEASED) if trial else None)
    if not found:
        raise CannotContinueError(
            f"CHANGELOG.md has no section `## [{version}]` with text; move what {version} brings "
            "from [Unreleased] to it."
        )
    return f"# Tandem {version}\n\n{found}\n"


def _sections(changelog: str) -> list[tuple[str, str]]:
    """Each heading of second level, with the text up to the next one."""
    parts = _HEADING.split(changelog)
    return [(name, text.strip()) for name, text in zip(parts[1::2], parts[2::2], strict=True)]
