"""Durations, percentages and quantities mean what Kubernetes and Go take them for."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_operator.api.values import (
    duration_s,
    format_duration,
    format_rate,
    format_ratio,
    quantity,
    ratio,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("1.5s", 1.5), ("1m30s", 90.0), ("2h", 7200.0), ("0s", 0.0), ("0.5ms", 5e-4)],
)
def test_reads_durations(text: str, seconds: float) -> None:
    assert duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "5", "fast", "-1s", "1 s", "1s\n", "1d", "s", ".5s", "\u0665s"]
)
def test_refuses_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="write for example 500ms"):
        duration_s(text)


@given(st.floats(min_value=1e-3, max_value=3600))
def test_formatted_duration_reads_back_within_its_digits(seconds: float) -> None:
    assert duration_s(format_duration(seconds)) == pytest.approx(seconds, rel=0.006)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0123, "12.3ms"), (0.4119, "412ms"), (1.5, "1.5s"), (0.0, "0ms"), (12.0, "12s")],
)
def test_formats_durations_with_three_digits(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (2, "2"),
        ("500m", "0.5"),
        ("64Mi", str(64 * 2**20)),
        ("1.5G", "1.5e9"),
        ("1e3", "1000"),
        ("2E", "2e18"),
        ("3Ei", str(3 * 2**60)),
    ],
)
def test_reads_quantities(value: int | str, number: str) -> None:
    assert quantity(value) == Decimal(number)


@pytest.mark.parametrize("value", ["", "x", "1MB", "-1", "1 Gi", "Mi", "1eX"])
def test_refuses_what_is_no_quantity(value: str) -> None:
    with pytest.raises(ValueError, match="no quantity"):
        quantity(value)


def test_reads_and_formats_percentages() -> None:
    assert ratio("99.5%") == pytest.approx(0.995)
    assert format_ratio(0.98765) == "98.8%"
    with pytest.raises(ValueError, match="no percentage"):
        ratio("101%")


@pytest.mark.parametrize(("rate", "text"), [(1.834, "1.83"), (0.0, "0"), (12.34, "12.3")])
def test_formats_rates_with_three_digits(rate: float, text: str) -> None:
    assert format_rate(rate) == text
