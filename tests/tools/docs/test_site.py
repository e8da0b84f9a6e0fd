"""The documentation site: complete, without a dead link, and independent of other hosts."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from docs.for_site import on_page_markdown

REPOSITORY = Path(__file__).resolve().parents[3]
LOADED = re.compile(
    r"""<(?:script|img|iframe)\b[^>]*\bsrc="(https?:[^"]+)"|<link\b[^>]*"(https?:[^"]+)"""
)


@dataclass(frozen=True)
class File:
    src_uri: str


@dataclass(frozen=True)
class Page:
    file: File


def shown(markdown: str, *, on: str) -> str:
    return on_page_markdown(markdown, page=Page(File(on)))


def build(*, config: Path, into: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (
            *(sys.executable, "-m", "mkdocs", "build", "--strict"),
            *("--config-file", str(config), "--site-dir", str(into)),
        ),
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_site_builds_and_its_pages_load_nothing_from_other_hosts(tmp_path: Path) -> None:
    built = build(config=REPOSITORY / "mkdocs.yml", into=tmp_path)

    assert built.returncode == 0, built.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 20
    assert [found.group() for page in pages for found in LOADED.finditer(page.read_text())] == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[a page](gone.md)", "gone.md"),
        ("[a heading](more.md#gone)", "anchor '#gone'"),
        ("No link.\n\n![](gone.svg)", "gone.svg"),
    ],
)
def test_a_dead_link_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    config = a_site(tmp_path, pages={"index.md": text, "more.md": "# More"})

    built = build(config=config, into=tmp_path / "site")

    assert built.returncode != 0
    assert complaint in built.stderr


def test_a_page_that_the_navigation_lacks_is_refused(tmp_path: Path) -> None:
    config = a_site(
        tmp_path, pages={"index.md": "# Home", "more.md": "# More", "lost.md": "# Lost"}
    )

    built = build(config=config, into=tmp_path / "site")

    assert built.returncode != 0
    assert "lost.md" in built.stderr


def a_site(folder: Path, *, pages: dict[str, str]) -> Path:
    """Return a site of its own pages with the settings of ours."""
    (folder / "docs").mkdir()
    for name, text in pages.items():
        (folder / "docs" / name).write_text(text)
    settings, _, _ = (REPOSITORY / "mkdocs.yml").read_text().partition("\nnav:")
    settings = settings.replace("docs/for_site.py", str(REPOSITORY / "docs" / "for_site.py"))
    config = folder / "mkdocs.yml"
    config.write_text(f"{settings}\nnav: [index.md, more.md]\n")
    return config


def test_a_link_out_of_the_documents_becomes_the_path_of_its_file() -> None:
    text = "[The values](../../charts/tandem/values.yaml), [`CHANGELOG.md`](../../CHANGELOG.md#a)."

    assert shown(text, on="how-to/install.md") == (
        "The values (`charts/tandem/values.yaml`), `CHANGELOG.md`."
    )


@pytest.mark.parametrize(
    "text",
    [
        "[a page](../reference/cli.md#record)",
        "[its neighbour](router.md)",
        "[elsewhere](https://example.com/a)",
        "![a picture](../images/logo.svg)",
    ],
)
def test_every_other_link_stays(text: str) -> None:
    assert shown(text, on="how-to/install.md") == text


def test_a_table_after_a_code_block_and_a_pipe_in_its_code_are_shown() -> None:
    text = "```\ncode `a\\|b`\n```\n| a | b |\n|---|---|\n| `x\\|y` | z\\|z |\n"

    assert shown(text, on="page.md").splitlines() == [
        *("```", "code `a\\|b`", "```", ""),
        *("| a | b |", "|---|---|", "| `x|y` | z\\|z |"),
    ]
