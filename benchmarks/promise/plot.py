"""A picture with a point per case and policy: the used share of the budget against the cost."""

from collections.abc import Iterator, Sequence
from html import escape
from math import log

from benchmarks.promise.kept import Row
from benchmarks.promise.scores import Result

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 900, 560, 80, 40, 150, 60
COSTS, USED = (0.25, 8.0), (0.02, 50.0)
COST_MARKS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
USED_MARKS = (0.02, 0.1, 0.5, 1.0, 2.0, 10.0, 50.0)
COLOURS = {
    "tandem": "#c2185b",
    "hold": "#f9a825",
    "ratchet": "#7e57c2",
    "clairvoyant": "#2e7d32",
    "dynamo": "#6d4c41",
    "hpa": "#1565c0",
    "keda": "#00838f",
}


def svg(results: Sequence[Result]) -> str:
    """Return the picture as SVG text; a case that no fixed fleet can serve has no point."""
    ran = [name for name in COLOURS if any(result.row(name) for result in results)]
    body = [*_axes(), *_legend(ran), *(p for result in results for p in _points(result))]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
            ' font-family="sans-serif" font-size="12">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
            *body,
            "</svg>\n",
        ]
    )


def _x(cost: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * _share(cost, COSTS)


def _y(used: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * _share(used, USED)


def _share(value: float, bounds: tuple[float, float]) -> float:
    """Return the place of a value on a log scale; a value outside stands at the edge."""
    low, high = bounds
    return log(min(max(value, low), high) / low) / log(high / low)


def _axes() -> Iterator[str]:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    for cost in COST_MARKS:
        x, colour = _x(cost), "#888" if cost == 1.0 else "#ddd"
        yield f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}" stroke="{colour}"/>'
        yield f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{cost:g}</text>'
    for used in USED_MARKS:
        y, colour = _y(used), "#888" if used == 1.0 else "#ddd"
        yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="{colour}"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{used:g}</text>'
    yield (
        f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 16}" text-anchor="middle">'
        "GPU-hours / cheapest fixed fleet that reaches the target</text>"
    )
    yield (
        f'<text x="{LEFT}" y="{TOP - 14}">late requests / what the target allows'
        ": the promise is kept above the line of 1</text>"
    )


def _legend(names: Sequence[str]) -> Iterator[str]:
    for place, name in enumerate(names):
        x, y = WIDTH - RIGHT + 20, TOP + 12 + 20 * place
        yield f'<circle cx="{x}" cy="{y}" r="5" fill="{COLOURS[name]}"/>'
        yield f'<text x="{x + 12}" y="{y + 4}">{name}</text>'


def _points(result: Result) -> Iterator[str]:
    fixed = result.row("fixed")
    if fixed is None:
        return
    for name, colour in COLOURS.items():
        row = result.row(name)
        if row is not None:
            yield _point(result, row, colour, row["gpu_hours"] / fixed["gpu_hours"])


def _point(result: Result, row: Row, colour: str, cost: float) -> str:
    used = (1.0 - row["attainment"]) / (1.0 - result.case.target)
    text = f"{result.case.name}, {row['policy']}: {row['attainment']:.4f} of {result.case.target:g}"
    return (
        f'<circle cx="{_x(cost):.1f}" cy="{_y(used):.1f}" r="4" fill="{colour}"'
        f' fill-opacity="0.6"><title>{escape(text)}, x{cost:.2f}</title></circle>'
    )
