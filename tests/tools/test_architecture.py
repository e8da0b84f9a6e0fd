"""The walk through the code names only files that are there."""

import re
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "explanation" / "architecture.md"


def test_every_file_that_the_page_names_is_there() -> None:
    named = set(re.findall(r"`([a-z_0-9/]+\.py)`", PAGE.read_text()))
    files = [
        str(path)
        for package in ("operator", "engine", "contracts")
        for path in (REPOSITORY / package).rglob("*.py")
    ]

    assert len(named) > 40
    assert [name for name in sorted(named) if not any(f.endswith(f"/{name}") for f in files)] == []
