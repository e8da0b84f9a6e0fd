"""A pool, an API server that keeps it, and the operator's passes over it."""

import pytest

from tests.unit.loop.store import storing


@pytest.fixture
async def store():
    async with storing() as found:
        yield found
