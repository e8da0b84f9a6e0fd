"""Options take every value that Tandem suggests to a person."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_operator.cli.units import duration, seconds


@given(st.floats(0.001, 1e6))
def test_a_suggested_duration_is_read_back_as_no_longer(value_s):
    assert value_s - 1.0 < seconds("--span", duration(value_s), positive=False) < value_s + 1e-9


@pytest.mark.parametrize(
    ("value_s", "text"),
    [(0.5, "500ms"), (60.0, "1m"), (333.9, "5m33s"), (3605.0, "1h5s"), (86_400.0, "24h")],
)
def test_durations_are_short(value_s, text):
    assert duration(value_s) == text
