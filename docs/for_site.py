"""A hook of mkdocs: what the site needs otherwise than the code host.

* A link that leaves `docs` opens a file on a code host. The site holds only `docs`, so there it
  becomes its words and the file's path. `python -m docs.lint` checks that the file is there.
* A table or list right after a code block needs a blank line before it.
* A pipe in code in a table needs no backslash, and would show it.
"""

import posixpath
import re
from collections.abc import Iterator
from typing import Protocol

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(((?:\.\./)+[^)\s#]+)[^)\s]*\)")


class _File(Protocol):
    src_uri: str


class _Page(Protocol):
    file: _File


def on_page_markdown(markdown: str, *, page: _Page, **_others: object) -> str:
    """The page's text as the site's Markdown wants it."""
    folder = posixpath.dirname(posixpath.join("docs", page.file.src_uri))

    def written_out(found: re.Match[str]) -> str:
        words, link = found.groups()
        path = posixpath.normpath(posixpath.join(folder, link))
        if path.startswith("docs/"):
            return found[0]
        return words if words.strip("`") == path else f"{words} (`{path}`)"

    return _LINK.sub(written_out, "\n".join(_lines(markdown)))


def _lines(markdown: str) -> Iterator[str]:
    fenced = False
    for line in markdown.splitlines():
        fence = line.lstrip().startswith("```")
        is_row = not fenced and line.startswith("|")
        yield re.sub(r"`[^`]+`", lambda code: code[0].replace("\\|", "|"), line) if is_row else line
        if fence and fenced:
            yield ""
        fenced ^= fence
