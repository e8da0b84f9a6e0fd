"""The linter of the documents: what it reports, and what it leaves alone."""

from pathlib import Path

import pytest

from docs.lint import (
    LONGEST_SENTENCE,
    anchors,
    check_links,
    check_lists,
    check_prose,
    main,
    sentences,
)

LONG = " ".join(["word"] * (LONGEST_SENTENCE + 1)).capitalize() + "."


def rules(markdown: str) -> list[str]:
    return [finding.rule for finding in check_prose("docs/page.md", markdown)]


def test_a_sentence_over_the_limit_is_reported_with_its_line_and_text() -> None:
    found = list(check_prose("docs/page.md", f"# Title\n\nShort.\nAlso short. {LONG}\n"))

    assert [str(finding) for finding in found] == [
        f"docs/page.md:4: {LONGEST_SENTENCE + 1} words, at most {LONGEST_SENTENCE}: {LONG}"
    ]


def test_a_sentence_at_the_limit_is_not_reported() -> None:
    assert not rules(LONG.replace("word word", "word"))


def test_a_sentence_that_goes_over_lines_is_counted_as_one() -> None:
    assert rules(LONG.replace(" ", "\n", 9)) == [f"{LONGEST_SENTENCE + 1} words, at most 25"]


@pytest.mark.parametrize(
    "markdown",
    [
        f"```\n{LONG}\n```",
        f"| {LONG} |\n|---|",
        f"## {LONG}",
        f"<!-- {LONG} -->",
        f"The router says `{LONG}` then.",
        f'The router says "{LONG}" then.',
        f"[A page](docs/{LONG.replace(' ', '-')}) says so.",
    ],
)
def test_what_is_not_prose_is_left_alone(markdown: str) -> None:
    assert not rules(markdown)


def test_list_items_are_sentences_of_their_own() -> None:
    items = "* one item without a full stop\n" * 9

    assert len(list(sentences(items))) == 9
    assert not rules(items)


@pytest.mark.parametrize("text", ["It takes 0.5 s.", "An engine, e.g. vLLM, waits.", "See `a.B`."])
def test_a_full_stop_inside_a_sentence_does_not_end_it(text: str) -> None:
    assert len(list(sentences(text))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "Who waits is served.",
        "Whoever comes is served.",
        "What is missing is unknown.",
        "Where a pool is, there is a router.",
        "A request that nobody places is shed.",
        "The request who waits is served.",
        "The role may do more.",
        "This is no problem.",
        "It shows what a pod is.",
    ],
)
def test_a_banned_wording_is_reported_once(text: str) -> None:
    assert len(rules(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "Who owns which field?",
        "What does it cost?",
        "A user who edits the pool sees it.",
        "There is no pod.",
        "It is no longer Ready.",
        "The pod whose node is gone is replaced.",
        "Where Prometheus is set, the operator asks it.",
    ],
)
def test_plain_english_near_a_banned_wording_passes(text: str) -> None:
    assert not rules(text)


def test_only_the_unreleased_changes_are_checked() -> None:
    text = f"# Changelog\n\n## [Unreleased]\n\n### Changed\n\n- {LONG}\n\n## [0.1]\n\n- {LONG}\n"

    assert [finding.line for finding in check_prose("CHANGELOG.md", text)] == [7]


def test_anchors_are_those_of_github() -> None:
    text = (
        "# Is it `right`?\n## A, b: c\n## [Linked](x.md) one\n## Same\n## Same\n```\n# none\n```\n"
    )

    assert anchors(text) == {"is-it-right", "a-b-c", "linked-one", "same", "same-1"}


def test_a_link_to_a_missing_file_or_heading_is_dead(tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text("## There\n")
    page = tmp_path / "a.md"
    page.write_text(
        "# Top\n[1](b.md#there) [2](#top) [3](https://x.org/#y) `[4](no.md)`\n"
        "[5](c.md) [6](b.md#gone) [7](#gone)\n"
    )

    found = list(check_links(page, root=tmp_path))

    assert [(finding.line, finding.text) for finding in found] == [
        (3, "c.md"),
        (3, "b.md#gone"),
        (3, "#gone"),
    ]


def test_a_list_that_the_site_would_show_otherwise_is_found() -> None:
    text = (
        "Text:\n* no blank line\n\n# Title\n* one\n  goes on\n* two\n    * inner\n  * flat\n"
        "```\ncode\n* none\n```\n* after code\n"
    )

    assert [(finding.line, finding.rule) for finding in check_lists("docs/page.md", text)] == [
        (2, "a blank line before a list"),
        (9, "indent an inner list by four spaces"),
    ]


def test_the_documents_of_this_repository_pass(capsys: pytest.CaptureFixture[str]) -> None:
    status = main([])

    assert status == 0, capsys.readouterr().out
