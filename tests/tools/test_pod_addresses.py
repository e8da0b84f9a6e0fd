"""Tests that play pods run beside each other, so each needs an address of its own."""

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLAYERS = (ROOT / "tests" / "integration", ROOT / "e2e")


def test_no_two_tests_give_pods_the_same_address() -> None:
    found = Counter(
        address
        for folder in PLAYERS
        for path in sorted(folder.rglob("*.py"))
        for address in re.findall(r'"(127\.77\.\d+\.\d+)"', path.read_text())
    )

    assert len(found) > 8
    assert {address for address, times in found.items() if times > 1} == set()
