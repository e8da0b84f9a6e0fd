"""Tables of figures for a terminal of any width; no figure is ever cut.

If the width is not enough, first titles wrap, and then the space between columns goes. At last
columns go below each other, each time beside the names of their rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

LINE = 1
SPACES = 2


@dataclass(frozen=True, slots=True)
class FigureTable:
    """Rows of text, the first cell of each its name.

    Attributes:
        titles: titles of the columns, that of the names included.
        styles: one for each row, or nothing.
    """

    titles: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    styles: Sequence[str | None] = ()

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Yield the table in one part, or in several parts below each other."""
        if self.title:
            yield Text(self.title, style="table.title")
        every = range(1, len(self.titles))
        if self._least([0, *every], SPACES) <= options.max_width:
            parts, between = [list(every)], SPACES
        elif self._least([0, *every], 0) <= options.max_width:
            parts, between = [list(every)], 0
        else:
            parts, between = self._parts(options.max_width), SPACES
        for number, part in enumerate(parts):
            if number:
                yield ""
            yield self._table([0, *part], between, options.max_width)

    def _parts(self, width: int) -> list[list[int]]:
        """Return the columns of each part: as many as there is room for, in their order."""
        parts: list[list[int]] = [[]]
        for column in range(1, len(self.titles)):
            if parts[-1] and self._least([0, *parts[-1], column], SPACES) > width:
                parts.append([])
            parts[-1].append(column)
        return parts

    def _least(self, columns: Sequence[int], between: int) -> int:
        """Return the least width that cuts nothing."""
        return sum(map(self._needed, columns)) + (len(columns) - 1) * (between + LINE)

    def _needed(self, column: int) -> int:
        """Return the width of a column whose title wraps and whose cells do not."""
        words = (cell_len(word) for word in self.titles[column].split())
        return max([1, *words, *(cell_len(row[column]) for row in self.rows)])

    def _table(self, columns: Sequence[int], between: int, width: int) -> Table:
        table = Table(show_edge=False, pad_edge=False, padding=(0, between // 2))
        spare = max(0, width - self._least(columns, between))
        for column in columns:
            needed = self._needed(column)
            more = min(spare, max(0, cell_len(self.titles[column]) - needed))
            spare -= more
            table.add_column(
                self.titles[column],
                justify="right" if column else "left",
                # Below its own least width even a name has to wrap.
                width=min(needed + more, width),
                overflow="fold",
            )
        for number, row in enumerate(self.rows):
            style = self.styles[number] if self.styles else None
            table.add_row(*(row[column] for column in columns), style=style)
        return table
