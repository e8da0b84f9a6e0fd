"""The positions of all marks of a plot; `templates/chart.svg` draws them."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tandem_operator.cli.output.page import render

if TYPE_CHECKING:
    from markupsafe import Markup

Point = tuple[float, float]

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 1080.0, 78.0, 14.0, 12.0, 24.0
# For texts: the largest width of a letter and height of a line, and the distance from their point.
LETTER, LINE = 7.0, 14.0
ASIDE, ABOVE, BELOW = 8.0, -6.0, 16.0


@dataclass(frozen=True, slots=True)
class Band:
    """A stretch of a horizontal axis that is shaded apart from its neighbours."""

    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Axis:
    """A range of values, and whether equal steps mean equal ratios.

    Attributes:
        zero: the value that is labelled 0.
    """

    low: float
    high: float
    unit: str
    log: bool = False
    zero: float = 0.0

    def place(self, value: float) -> float:
        """Return the position as a share of the length, 0 at the low end, kept inside the plot."""
        low, high = self._scaled(self.low), self._scaled(self.high)
        share = (self._scaled(value) - low) / (high - low)
        return min(1.0, max(0.0, share))

    def _scaled(self, value: float) -> float:
        return math.log10(max(value, 1e-6)) if self.log else value

    def ticks(self, *, parts: int) -> list[float]:
        """Return round values for lines, about `parts` of them if steps are equal."""
        if self.log:
            decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            factors = (1, 2, 5) if self.high / self.low < 50 else (1,)
            candidates = [factor * 10.0**decade for decade in decades for factor in factors]
        else:
            step = _round_step((self.high - self.low) / parts)
            first = math.ceil((self.low - self.zero) / step - 1e-9)
            last = math.floor((self.high - self.zero) / step + 1e-9)
            candidates = [self.zero + step * number for number in range(first, last + 1)]
        return [tick for tick in candidates if self.low <= tick <= self.high * (1 + 1e-9)]

    def label(self, value: float) -> str:
        """Return a tick's text."""
        shown = value - self.zero
        if self.unit == "s":
            return f"{1000 * shown:g} ms" if shown < 1 else f"{shown:g} s"
        return f"{round(shown, 9):g}{self.unit}"


def _round_step(step: float) -> float:
    magnitude = 10.0 ** math.floor(math.log10(step))
    return next(
        factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= step - 1e-12
    )


@dataclass(frozen=True, slots=True)
class Label:
    """A text whose line is at `y` and that begins at `x`, or ends there if not `right`."""

    text: str
    css: str
    x: float
    y: float
    right: bool

    @property
    def _sides(self) -> tuple[float, float]:
        width = LETTER * len(self.text)
        return (self.x, self.x + width) if self.right else (self.x - width, self.x)

    def is_inside(self, height: float) -> bool:
        """Return whether the whole label is on the plot."""
        left, right = self._sides
        return left >= LEFT and right <= WIDTH and LINE <= self.y <= height - BOTTOM

    def is_over(self, other: "Label") -> bool:
        """Return whether the two labels overlap."""
        (left, right), (its_left, its_right) = self._sides, other._sides
        return left < its_right and its_left < right and abs(self.y - other.y) < LINE

    def covers(self, x: float, y: float) -> bool:
        """Return whether the label covers the middle of a dot."""
        left, right = self._sides
        return left <= x <= right and self.y - LINE <= y <= self.y


@dataclass(frozen=True, slots=True)
class Polyline:
    """Straight lines through `points`, pairs of coordinates as SVG writes them."""

    css: str
    points: str
    shape: str = "line"


@dataclass(frozen=True, slots=True)
class Dot:
    """A dot, with a text that shows when the pointer rests on it."""

    css: str
    x: float
    y: float
    text: str
    radius: float
    shape: str = "dot"


@dataclass(frozen=True, slots=True)
class Marker:
    """A dot that holds a short label, with a text that shows when the pointer rests on it."""

    css: str
    x: float
    y: float
    text: str
    label: str
    shape: str = "marker"


@dataclass(frozen=True, slots=True)
class Tick:
    """A text at a place along one of the axes."""

    at: float
    text: str


class Chart:
    """One plot; the marks are drawn in the order in which they are added."""

    def __init__(
        self, title: str, *, x: Axis, y: Axis, bands: Sequence[Band] = (), height: float = 190.0
    ) -> None:
        self._title = title
        self._axes = (x, y)
        self._bands = bands or (Band(x.low, x.high),)
        self._height = height
        self._marks: list[Polyline | Dot | Marker] = []
        self._dots: list[Point] = []
        self._names: list[Label] = []

    def _x(self, value: float) -> float:
        return round(LEFT + self._axes[0].place(value) * (WIDTH - LEFT - RIGHT), 1)

    def _y(self, value: float) -> float:
        span = self._height - TOP - BOTTOM
        return round(self._height - BOTTOM - self._axes[1].place(value) * span, 1)

    def line(self, points: Iterable[Point], *, css: str) -> "Chart":
        """Add straight lines from point to point."""
        text = " ".join(f"{self._x(x)},{self._y(y)}" for x, y in points)
        if text:
            self._marks.append(Polyline(css, text))
        return self

    def steps(self, points: Sequence[Point], *, css: str) -> "Chart":
        """Add a value that holds until the next point, and the last one to the end."""
        held: list[Point] = []
        for number, (x, y) in enumerate(points):
            until = points[number + 1][0] if number + 1 < len(points) else self._axes[0].high
            held += [(x, y), (until, y)]
        return self.line(held, css=css)

    def dots(
        self, points: Iterable[tuple[float, float, str]], *, css: str, radius: float = 2.0
    ) -> "Chart":
        """Add one dot per point, with a text that shows when the pointer rests on it."""
        for at_x, at_y, text in points:
            x, y = self._x(at_x), self._y(at_y)
            self._dots.append((x, y))
            self._marks.append(Dot(css, x, y, text, radius))
        return self

    def markers(self, points: Iterable[tuple[float, float, str, str]], *, css: str) -> "Chart":
        """Add numbered marks, each with a text of its own."""
        for at_x, at_y, label, text in points:
            self._marks.append(Marker(css, self._x(at_x), self._y(at_y), text, label))
        return self

    def names(
        self, points: Iterable[tuple[float, float, str]], *, css: str, needed: bool = False
    ) -> "Chart":
        """Add a short text beside each point, over everything else and never over another text.

        A text without room is left out, unless it is `needed`: add those first.
        """
        for at_x, at_y, text in points:
            label = self._placed(self._x(at_x), self._y(at_y), text, css=css, needed=needed)
            if label is not None:
                self._names.append(label)
        return self

    def _placed(self, x: float, y: float, text: str, *, css: str, needed: bool) -> Label | None:
        beside = [(side, y + down) for side in (True, False) for down in (ABOVE, BELOW)]
        rows = range(1, int(self._height / LINE)) if needed else ()
        further = [
            (True, y + down + sign * LINE * row)
            for row in rows
            for sign, down in ((1, BELOW), (-1, ABOVE))
        ]
        labels = [
            Label(text, css, x + ASIDE if right else x - ASIDE, at_y, right=right)
            for right, at_y in (*beside, *further)
        ]
        free = [
            label
            for label in labels
            if label.is_inside(self._height) and not any(map(label.is_over, self._names))
        ]
        clear = [label for label in free if not any(label.covers(*dot) for dot in self._dots)]
        return next(iter((*clear, *free)), labels[0] if needed else None)

    def svg(self) -> "Markup":
        """Return the whole plot."""
        x_axis, y_axis = self._axes
        return render(
            "chart.svg",
            title=self._title,
            width=WIDTH,
            height=self._height,
            left=LEFT,
            right=WIDTH - RIGHT,
            top=TOP,
            bottom=self._height - BOTTOM,
            bands=[Band(self._x(band.start), self._x(band.end)) for band in self._bands],
            rows=[Tick(self._y(at), y_axis.label(at)) for at in y_axis.ticks(parts=4)],
            columns=[self._column(at) for at in x_axis.ticks(parts=10)],
            marks=self._marks,
            names=self._names,
        )

    def _column(self, value: float) -> Tick:
        at, text = self._x(value), self._axes[0].label(value)
        # The middle of the last one may be at a place where its second half would be cut.
        cut = at + 0.5 * LETTER * len(text) > WIDTH
        return Tick(WIDTH if cut else at, text)
