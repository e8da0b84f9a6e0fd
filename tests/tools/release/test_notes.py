"""Notes cut out of the changelog."""

import pytest

from e2e.cluster.names import ROOT
from e2e.cluster.progress import CannotContinueError
from release.notes import notes_of

CHANGELOG = """# Changelog

## [Unreleased]

- To come.

## [0.2.0] - 2026-11-27

### Added

- More.

## 0.1.0

- First.
"""


def test_notes_are_the_section_of_the_version() -> None:
    assert notes_of(CHANGELOG, "0.2.0", trial=False) == "# Tandem 0.2.0\n\n### Added\n\n- More.\n"
    assert notes_of(CHANGELOG, "0.1.0", trial=True) == "# Tandem 0.1.0\n\n- First.\n"


def test_a_trial_takes_what_is_not_released_yet() -> None:
    assert notes_of(CHANGELOG, "0.3.0", trial=True) == "# Tandem 0.3.0\n\n- To come.\n"


@pytest.mark.parametrize("changelog", [CHANGELOG, "", "## [0.3.0]\n\n## [0.2.0]\n\n- More.\n"])
def test_a_version_without_text_is_refused(changelog: str) -> None:
    with pytest.raises(CannotContinueError, match=r"no section `## \[0\.3\.0\]` with text"):
        notes_of(changelog, "0.3.0", trial=False)


def test_this_changelog_has_notes_for_a_trial() -> None:
    notes = notes_of((ROOT / "CHANGELOG.md").read_text(), "0.1.0", trial=True)

    assert "### Added" in notes
    assert "## [" not in notes
