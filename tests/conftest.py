"""No test fails for being slow: how long an example takes is up to what else the machine does."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Drawing examples takes a second of a busy machine as well, which that check takes for a mistake.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

HERE = Path(__file__).parent
SIMULATED = (HERE / "simulation", HERE / "property")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark whole folders, so that one stage can choose them and the unit tests like them."""
    for item in items:
        if any(item.path.is_relative_to(folder) for folder in SIMULATED):
            item.add_marker(pytest.mark.simulates)
