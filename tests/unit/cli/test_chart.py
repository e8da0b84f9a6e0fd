"""Names on a plot can be read: none lies over another or past the edge."""

import re
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from tandem_operator.cli.output.chart import WIDTH, Axis, Chart

LETTER, HEIGHT = 6.0, 12.0
points = st.lists(st.tuples(st.floats(0.0, 80.0), st.floats(0.0, 10.0)), min_size=1, max_size=12)


def chart():
    return Chart("t", x=Axis(0.0, 100.0, ""), y=Axis(0.0, 10.0, ""), height=300.0)


def named(svg):
    """Return the box of each name, by its text."""
    found = re.findall(r'<text class="(name[^"]*)" x="([\d.]+)" y="([\d.]+)">([^<]+)</text>', svg)
    boxes = {}
    for css, x, y, text in found:
        width = LETTER * len(text)
        left = float(x) - (width if css.endswith(" end") else 0.0)
        boxes[text] = (left, float(y) - HEIGHT + 2, left + width, float(y) + 2)
    return boxes


def overlap(a, b):
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


@given(points, points)
def test_no_name_lies_over_another_and_those_that_must_be_there_are(needed, others):
    drawn = chart()
    drawn.names(((x, y, f"needed {i}") for i, (x, y) in enumerate(needed)), css="name", needed=True)
    drawn.names(((x, y, f"{i}P{i}D") for i, (x, y) in enumerate(others)), css="name soft")

    boxes = named(drawn.svg())

    assert {f"needed {i}" for i in range(len(needed))} <= set(boxes)
    assert not [pair for pair in combinations(boxes.values(), 2) if overlap(*pair)]
    assert all(left >= 0.0 and right <= WIDTH for left, _, right, _ in boxes.values())


def test_a_name_goes_to_the_other_side_of_its_point_where_one_is_in_its_way():
    drawn = chart()
    drawn.names([(50.0, 5.0, "Tandem")], css="name", needed=True)
    drawn.names([(50.0, 5.0, "2P3D")], css="name soft")

    boxes = named(drawn.svg())

    assert set(boxes) == {"Tandem", "2P3D"}


def test_a_name_keeps_clear_of_the_dots_of_others_where_it_can():
    drawn = chart().dots([(53.0, 5.3, "another")], css="meets", radius=5.0)
    drawn.names([(50.0, 5.0, "2P3D")], css="name")

    [(x, y)] = re.findall(r'<circle class="meets" cx="([\d.]+)" cy="([\d.]+)"', drawn.svg())
    left, top, right, bottom = named(drawn.svg())["2P3D"]
    assert not (left < float(x) < right and top < float(y) < bottom)


def test_the_last_tick_is_not_cut_at_the_edge():
    wide = Chart("t", x=Axis(0.0, 100.0, "minutes"), y=Axis(0.0, 10.0, ""), height=300.0)

    ticks = re.findall(
        r'<text class="tick (mid|end)" x="([\d.]+)" y="([\d.]+)">([^<]+)', wide.svg()
    )
    below = [(css, float(x), text) for css, x, y, text in ticks if text.endswith("minutes")]

    assert below[-1][2] == "100minutes"
    for css, x, text in below:
        assert x + LETTER * len(text) * (0.5 if css == "mid" else 0.0) <= WIDTH
