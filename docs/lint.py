"""`python -m docs.lint`: can an engineer whose second language is English read the documents?

`make lint` runs it. It prints `FILE:LINE: RULE: TEXT` for each finding and ends with 1 if there are
any. It checks three things:

* Links, in every Markdown file: a relative target exists, and an anchor is a heading of its file.
* Lists, in every file: they stand as on the code host on the site, too, whose Markdown is stricter.
* Prose, in every file but those of `NOT_YET`: sentences of at most 25 words, and none of the words
  and openings of `BANNED`. Code, tables, headings, link targets and quoted text are not prose.

To add a file of `NOT_YET`: run `python -m docs.lint FILE`, rewrite what it reports, and take the
file off the list. There is no way to allow a single sentence: rewrite it.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LONGEST_SENTENCE = 25
# Documents whose prose is not clean yet. A new document is checked from its first day.
NOT_YET: tuple[str, ...] = ()
# Generated: their sentences stand in the models and in the fault matrix.
LINKS_ONLY = "docs/reference/api.md", "docs/measurements/faults.md"
# Of these files, only the prose of one section is checked: what was released stays as it was.
ONLY_SECTION: Mapping[str, str] = {"CHANGELOG.md": "[Unreleased]"}

_PEOPLE = "".join(f"(?<!{one} )" for one in ("user", "users", "people", "person", "authors"))
# A wording that readers stumble over, and why or what to write instead.
BANNED: tuple[tuple[str, str], ...] = (
    (r"^(?:Who|Whom|Whoever)\b(?!.*\?$)", "begin with the subject: the request, the client"),
    (r"^(?:What|Whatever)\b(?!.*\?$)", "begin with the thing itself, not with a what-clause"),
    (r"^Where\b.*\bthere\b", "write `If ...`, and name the place once"),
    (
        _PEOPLE + r"(?<!^)\b(?:who|whom|whoever)\b(?!.*\?$)",
        "a request, a pod or a router is `it`; write `that`, or name it",
    ),
    (
        r"(?i)\b(?:nobody|somebody|everybody|anybody)(?:'s)?\b",
        "name the request, pod, client or person: `no client`, `every request`",
    ),
    (r"\bmay do\b", "say the act: `the role can grow`, `the client can retry`"),
    (
        r"(?<!there )(?<!There )\b(?:is|are) no (?!longer\b|more\b|less\b|fewer\b|\w+er than\b)",
        "write `is not a ...`, or say the positive fact",
    ),
    (
        r"\bwhat (?:\w+ ){1,2}(?:is|are|was|were)\b(?!.*\?$)",
        "name the thing: `the state of the pod`, not `what the pod is`",
    ),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to rewrite or to mend."""

    path: str
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        """One line for people and editors."""
        return f"{self.path}:{self.line}: {self.rule}: {self.text}"


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence without its markup, and the line that it begins on."""

    line: int
    text: str

    @property
    def words(self) -> int:
        """Everything between spaces that holds a letter or a digit."""
        return sum(1 for word in self.text.split() if re.search(r"\w", word))


# A full stop ends a sentence only before what can begin one: `e.g. a pod` and `0.5 s` go on.
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]*[A-Z0-9])")
_MARKUP: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"`[^`]+`"), "Code"),
    (re.compile(r"!\[[^\]]*\]\([^)]*\)"), ""),
    (re.compile(r"\[([^\]]*)\]\([^)]*\)"), r"\1"),
    (re.compile(r'"[^"]{2,200}"'), "Quote"),
    (re.compile(r"<[^>\s][^>]*>|\*\*|(?<!\w)\*(?=\w)|(?<=\w)\*(?!\w)"), ""),
)


def sentences(markdown: str, *, section: str | None = None) -> Iterator[Sentence]:
    """The prose of a document, or of one section of second level."""
    for start, paragraph in _paragraphs(markdown, section=section):
        text = paragraph
        for pattern, plain in _MARKUP:
            # Lines are kept, so that a sentence can be found again.
            text = pattern.sub(partial(_in_as_many_lines, plain=plain), text)
        begin = 0
        for end in [*(m.end() for m in _SENTENCE_END.finditer(text)), len(text)]:
            if plain_text := " ".join(text[begin:end].split()):
                yield Sentence(start + text[:begin].count("\n"), plain_text)
            begin = end


def _in_as_many_lines(found: re.Match[str], *, plain: str) -> str:
    shown = found.expand(plain)
    return shown + "\n" * (found.group().count("\n") - shown.count("\n"))


def _paragraphs(markdown: str, *, section: str | None) -> Iterator[tuple[int, str]]:
    """Paragraphs and list items with the number of their first line."""
    fenced, wanted, first, lines = False, section is None, 0, list[str]()
    for number, line in enumerate([*markdown.splitlines(), ""], start=1):
        text = line.strip()
        fence, heading = text.startswith(("```", "~~~")), text.startswith("#")
        item = re.match(r"(?:[-*+]|\d+\.)\s+", text)
        if lines and (not text or fence or fenced or heading or item or text.startswith("|")):
            yield first, "\n".join(lines)
            lines = []
        fenced ^= fence
        if fence or fenced or not text or text.startswith(("|", "<!--")):
            continue
        if heading:
            wanted = section is None or (wanted if line[:3] != "## " else line[3:] == section)
        elif wanted:
            first = first if lines else number
            lines.append(text[item.end() :] if item else text)


def check_prose(path: str, markdown: str) -> Iterator[Finding]:
    """Sentences that are too long or hold a banned wording."""
    for sentence in sentences(markdown, section=ONLY_SECTION.get(path)):
        if sentence.words > LONGEST_SENTENCE:
            rule = f"{sentence.words} words, at most {LONGEST_SENTENCE}"
            yield Finding(path, sentence.line, rule, sentence.text)
        for wording, instead in BANNED:
            if found := re.search(wording, sentence.text):
                rule = f"'{found.group()[:40]}': {instead}"
                yield Finding(path, sentence.line, rule, sentence.text)


def anchors(markdown: str) -> set[str]:
    """The anchors that GitHub gives the headings of a document."""
    seen: dict[str, int] = {}
    for line in re.sub(r"(?ms)^```.*?^```", "", markdown).splitlines():
        if heading := re.match(r"#{1,6}\s+(.*)", line):
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1])
            slug = re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")
            seen[slug] = seen.get(slug, -1) + 1
    return {
        slug if not n else f"{slug}-{n}" for slug, most in seen.items() for n in range(most + 1)
    }


def check_links(path: Path, *, root: Path) -> Iterator[Finding]:
    """Relative links whose file or heading does not exist."""
    fenced = False
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        fenced ^= line.lstrip().startswith("```")
        for link in [] if fenced else re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
            if re.match(r"[a-z]+:", link):
                continue
            name, _, anchor = link.partition("#")
            target = path.parent / name if name else path
            known = target.suffix == ".md" and target.is_file()
            if not target.exists() or (
                anchor and known and anchor not in anchors(target.read_text())
            ):
                yield Finding(str(path.relative_to(root)), number, "dead link", link)


_ITEM = re.compile(r"( *)(?:[-*+]|\d{1,2}\.) ")


def check_lists(path: str, markdown: str) -> Iterator[Finding]:
    """Lists that the site would show flat, or as a part of the paragraph before."""
    fenced, previous = False, ""
    for number, line in enumerate(markdown.splitlines(), start=1):
        fenced ^= line.lstrip().startswith("```")
        if not fenced and (item := _ITEM.match(line)):
            if len(item[1]) % 4:
                yield Finding(path, number, "indent an inner list by four spaces", line.strip())
            if re.match(r"[^\s#`|]", previous) and not _ITEM.match(previous):
                yield Finding(path, number, "a blank line before a list", line.strip())
        previous = line


def main(arguments: Sequence[str] | None = None) -> int:
    """Checks all documents, or the given ones even if they are not clean yet."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="*", help="check these, those of `NOT_YET` too")
    given = parser.parse_args(arguments).files
    named = [str(Path(name).resolve().relative_to(ROOT)) for name in given]
    names = named or [str(path.relative_to(ROOT)) for path in _documents()]
    findings: list[Finding] = []
    for name in names:
        findings += check_links(ROOT / name, root=ROOT)
        findings += check_lists(name, (ROOT / name).read_text())
        if name not in LINKS_ONLY and (named or name not in NOT_YET):
            findings += check_prose(name, (ROOT / name).read_text())
    for finding in findings:
        print(finding)
    print(f"{len(names)} documents, {len(findings)} findings", file=sys.stderr)
    return 1 if findings else 0


def _documents() -> list[Path]:
    folders = (ROOT / "charts", ROOT / "docs")
    return sorted([*ROOT.glob("*.md"), *(path for each in folders for path in each.rglob("*.md"))])


if __name__ == "__main__":
    sys.exit(main())
