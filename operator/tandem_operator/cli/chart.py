"""Plots as inline SVG text, for pages that need nothing but themselves; no library to load."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

Point = tuple[float, float]

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 1080.0, 78.0, 14.0, 12.0, 24.0


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
        """Share of the length, 0 at the low end, kept inside the plot."""
        low, high = self._scaled(self.low), self._scaled(self.high)
        share = (self._scaled(value) - low) / (high - low)
        return min(1.0, max(0.0, share))

    def _scaled(self, value: float) -> float:
        return math.log10(max(value, 1e-6)) if self.log else value

    def ticks(self, *, parts: int) -> list[float]:
        """Round values to put a line at, about `parts` of them where steps are equal."""
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
        """A tick's text."""
        shown = value - self.zero
        if self.unit == "s":
            return f"{1000 * shown:g} ms" if shown < 1 else f"{shown:g} s"
        return f"{round(shown, 9):g}{self.unit}"


def _round_step(step: float) -> float:
    magnitude = 10.0 ** math.floor(math.log10(step))
    return next(
        factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= step - 1e-12
    )


class Chart:
    """One plot; the marks are drawn in the order in which they are added."""

    def __init__(
        self, title: str, *, x: Axis, y: Axis, bands: Sequence[Band] = (), height: float = 190.0
    ) -> None:
        self._title = title
        self._axes = (x, y)
        self._bands = bands or (Band(x.low, x.high),)
        self._height = height
        self._marks: list[str] = []

    def _x(self, value: float) -> float:
        return round(LEFT + self._axes[0].place(value) * (WIDTH - LEFT - RIGHT), 1)

    def _y(self, value: float) -> float:
        span = self._height - TOP - BOTTOM
        return round(self._height - BOTTOM - self._axes[1].place(value) * span, 1)

    def line(self, points: Iterable[Point], *, css: str) -> "Chart":
        """Straight lines from point to point."""
        text = " ".join(f"{self._x(x)},{self._y(y)}" for x, y in points)
        if text:
            self._marks.append(f'<polyline class="{css}" points="{text}"/>')
        return self

    def steps(self, points: Sequence[Point], *, css: str) -> "Chart":
        """A value that holds until the next point, and the last one to the end."""
        held: list[Point] = []
        for number, (x, y) in enumerate(points):
            until = points[number + 1][0] if number + 1 < len(points) else self._axes[0].high
            held += [(x, y), (until, y)]
        return self.line(held, css=css)

    def dots(
        self, points: Iterable[tuple[float, float, str]], *, css: str, radius: float = 2.0
    ) -> "Chart":
        """One dot per point, with a text that shows when the pointer rests on it."""
        self._marks += [
            f'<circle class="{css}" cx="{self._x(x)}" cy="{self._y(y)}" r="{radius:g}">'
            f"<title>{escape(text)}</title></circle>"
            for x, y, text in points
        ]
        return self

    def markers(self, points: Iterable[tuple[float, float, str, str]], *, css: str) -> "Chart":
        """Numbered marks, each with a text of its own."""
        for at_x, at_y, label, text in points:
            x, y = self._x(at_x), self._y(at_y)
            self._marks.append(
                f'<g class="{css}"><title>{escape(text)}</title>'
                f'<circle cx="{x}" cy="{y}" r="9"/>'
                f'<text x="{x}" y="{y + 4}">{escape(label)}</text></g>'
            )
        return self

    def names(
        self, points: Iterable[tuple[float, float, str]], *, css: str, below: bool = False
    ) -> "Chart":
        """A short text beside each point."""
        down = 16 if below else -6
        self._marks += [
            f'<text class="{css}" x="{self._x(x) + 8}" y="{self._y(y) + down}">'
            f"{escape(text)}</text>"
            for x, y, text in points
        ]
        return self

    def svg(self) -> str:
        """The whole plot."""
        x_axis, y_axis = self._axes
        right, bottom = WIDTH - RIGHT, self._height - BOTTOM
        parts = [
            f'<svg viewBox="0 0 {WIDTH:g} {self._height:g}" role="img" '
            f'aria-label="{escape(self._title)}">'
        ]
        for number, band in enumerate(self._bands):
            x, end = self._x(band.start), self._x(band.end)
            parts.append(
                f'<rect class="band band{number % 2}" x="{x}" y="{TOP}" '
                f'width="{round(end - x, 1)}" height="{bottom - TOP}"/>'
            )
        for tick in y_axis.ticks(parts=4):
            y = self._y(tick)
            parts.append(f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{y}" y2="{y}"/>')
            text = escape(y_axis.label(tick))
            parts.append(f'<text class="tick end" x="{LEFT - 8}" y="{y + 4}">{text}</text>')
        for tick in x_axis.ticks(parts=10):
            text = escape(x_axis.label(tick))
            parts.append(
                f'<text class="tick mid" x="{self._x(tick)}" y="{bottom + 16}">{text}</text>'
            )
        return "".join([*parts, *self._marks, "</svg>"])
