"""Plots as inline SVG text: one time axis, shared by all, and no library to load."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

Point = tuple[float, float]

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 1080.0, 78.0, 14.0, 12.0, 24.0


@dataclass(frozen=True, slots=True)
class Band:
    """A named stretch of the time axis."""

    name: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Axis:
    """The vertical axis: its range, and whether equal steps mean equal ratios."""

    low: float
    high: float
    unit: str
    log: bool = False

    def place(self, value: float) -> float:
        """Share of the height, 0 at the bottom, kept inside the plot."""
        low, high = self._scaled(self.low), self._scaled(self.high)
        share = (self._scaled(value) - low) / (high - low)
        return min(1.0, max(0.0, share))

    def _scaled(self, value: float) -> float:
        return math.log10(max(value, 1e-6)) if self.log else value

    def ticks(self) -> list[float]:
        """Round values to put a line at."""
        if self.log:
            decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            factors = (1, 2, 5) if self.high / self.low < 50 else (1,)
            candidates = [factor * 10.0**decade for decade in decades for factor in factors]
        else:
            step = _round_step((self.high - self.low) / 4)
            count = math.floor((self.high - self.low) / step + 1e-9)
            candidates = [self.low + step * number for number in range(count + 1)]
        return [tick for tick in candidates if self.low <= tick <= self.high * (1 + 1e-9)]

    def label(self, value: float) -> str:
        """A tick's text."""
        if self.unit == "s":
            return f"{1000 * value:g} ms" if value < 1 else f"{value:g} s"
        return f"{value:g}{self.unit}"


def _round_step(step: float) -> float:
    magnitude = 10.0 ** math.floor(math.log10(step))
    return next(
        factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= step - 1e-12
    )


class Chart:
    """One plot; the marks are drawn in the order in which they are added."""

    def __init__(
        self, title: str, *, axis: Axis, bands: Sequence[Band], height: float = 190.0
    ) -> None:
        self._title = title
        self._axis = axis
        self._bands = bands
        self._height = height
        self._start_s, self._end_s = bands[0].start_s, bands[-1].end_s
        self._marks: list[str] = []

    def _x(self, at_s: float) -> float:
        share = (at_s - self._start_s) / (self._end_s - self._start_s)
        return round(LEFT + min(1.0, max(0.0, share)) * (WIDTH - LEFT - RIGHT), 1)

    def _y(self, value: float) -> float:
        span = self._height - TOP - BOTTOM
        return round(self._height - BOTTOM - self._axis.place(value) * span, 1)

    def line(self, points: Iterable[Point], *, css: str) -> "Chart":
        """Straight lines from point to point."""
        text = " ".join(f"{self._x(at_s)},{self._y(value)}" for at_s, value in points)
        if text:
            self._marks.append(f'<polyline class="{css}" points="{text}"/>')
        return self

    def steps(self, points: Sequence[Point], *, css: str) -> "Chart":
        """A value that holds until the next point, and the last one to the end."""
        held: list[Point] = []
        for number, (at_s, value) in enumerate(points):
            until_s = points[number + 1][0] if number + 1 < len(points) else self._end_s
            held += [(at_s, value), (until_s, value)]
        return self.line(held, css=css)

    def dots(self, points: Iterable[tuple[float, float, str]], *, css: str) -> "Chart":
        """One dot per point, with a text that shows when the pointer rests on it."""
        self._marks += [
            f'<circle class="{css}" cx="{self._x(at_s)}" cy="{self._y(value)}" r="2">'
            f"<title>{escape(text)}</title></circle>"
            for at_s, value, text in points
        ]
        return self

    def markers(self, points: Iterable[tuple[float, float, str, str]], *, css: str) -> "Chart":
        """Numbered marks, each with a text of its own."""
        for at_s, value, label, text in points:
            x, y = self._x(at_s), self._y(value)
            self._marks.append(
                f'<g class="{css}"><title>{escape(text)}</title>'
                f'<circle cx="{x}" cy="{y}" r="9"/>'
                f'<text x="{x}" y="{y + 4}">{escape(label)}</text></g>'
            )
        return self

    def svg(self) -> str:
        """The whole plot."""
        right, bottom = WIDTH - RIGHT, self._height - BOTTOM
        parts = [
            f'<svg viewBox="0 0 {WIDTH:g} {self._height:g}" role="img" '
            f'aria-label="{escape(self._title)}">'
        ]
        for number, band in enumerate(self._bands):
            x, end = self._x(band.start_s), self._x(band.end_s)
            parts.append(
                f'<rect class="band band{number % 2}" x="{x}" y="{TOP}" '
                f'width="{round(end - x, 1)}" height="{bottom - TOP}"/>'
            )
        for tick in self._axis.ticks():
            y = self._y(tick)
            parts.append(f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{y}" y2="{y}"/>')
            text = escape(self._axis.label(tick))
            parts.append(f'<text class="tick end" x="{LEFT - 8}" y="{y + 4}">{text}</text>')
        seconds = self._end_s - self._start_s
        step = _round_step(seconds / 10)
        for number in range(int(seconds / step) + 1):
            x = self._x(self._start_s + number * step)
            text = f"{number * step:g} s"
            parts.append(f'<text class="tick mid" x="{x}" y="{bottom + 16}">{text}</text>')
        return "".join([*parts, *self._marks, "</svg>"])
