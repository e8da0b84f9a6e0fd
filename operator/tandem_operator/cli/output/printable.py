"""Safe text on a terminal: it must not move the cursor, change colours or begin a line."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook, RenderResult
from rich.segment import Segment


def printable(text: str) -> str:
    """Return the text with each control character written out."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


class WrittenOut(RenderHook):
    """A console hook that writes out control characters of texts, but keeps the console's own."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """Return each of them, with its text made harmless as it is drawn."""
        return [_Drawn(each) for each in renderables]


class _Drawn:
    def __init__(self, renderable: ConsoleRenderable) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from _harmless(console.render(self._renderable, options))


def _harmless(segments: Iterable[Segment]) -> Iterable[Segment]:
    for text, style, control in segments:
        # The layout ends lines: it has split foreign text at its own newlines.
        safe = text if control else "\n".join(map(printable, text.split("\n")))
        yield Segment(safe, style, control)
