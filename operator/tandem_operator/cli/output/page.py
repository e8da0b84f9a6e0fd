"""A report as one HTML page that needs nothing but itself: its style, its plots, its tables."""

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

STYLE = Path(__file__).with_name("page.css")


def page(title: str, sections: Iterable[str]) -> str:
    """The whole page around its sections."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
        f"<style>{STYLE.read_text()}</style></head><body>{''.join(sections)}</body></html>\n"
    )


def heading(title: str, note: str = "") -> str:
    """A section's head, with a soft line under it."""
    soft = f"<p class='soft'>{escape(note)}</p>" if note else ""
    return f"<h2>{escape(title)}</h2>{soft}"


def notes(sentences: Iterable[str]) -> str:
    """What the figures below do not say by themselves."""
    return "".join(f"<p class='note'>{escape(sentence)}</p>" for sentence in sentences)


def tiles(pairs: Iterable[tuple[str, str]]) -> str:
    """Figures in a row, each over its label."""
    inner = "".join(
        f"<div class='tile'><b>{escape(value)}</b><span>{escape(label)}</span></div>"
        for value, label in pairs
    )
    return f"<div class='tiles'>{inner}</div>"


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose first column is text and whose others are figures."""
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"
