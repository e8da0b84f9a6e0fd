"""An engine's own measurements are kept or left out: no part is one that no reader accepts."""

import random
from typing import Any

import pytest

from tandem_engine.serve import measure as measuring
from tandem_engine.serve.measure import measure
from tests.unit.serve.given import settings


async def test_a_step_too_short_to_be_timed_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hardly_longer(*_: Any, max_tokens: int, **__: Any) -> float:
        return 0.01 + 1e-8 * (max_tokens - 1)

    monkeypatch.setattr(measuring, "complete", hardly_longer)

    found = await measure(
        settings(),
        None,  # type: ignore[arg-type]
        max_model_len=512,
        kv_capacity_tokens=None,
        draw=random.Random(1),
    )

    assert found.decode_steps == ()
    assert found.requests > 0
