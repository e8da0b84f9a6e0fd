"""An API server that keeps what it is sent."""

import pytest

from tests.unit.kube.apiserver import recording


@pytest.fixture
async def api():
    async with recording() as found:
        yield found
