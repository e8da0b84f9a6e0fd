"""The control port's answers, whatever the launcher knows."""

from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from tandem_engine.serve.control import control_app
from tandem_engine.serve.lifecycle import Lifecycle

KNOWN: dict[str, Any] = {
    "role": "prefill",
    "revision": "a1",
    "model": "tiny",
    "max_num_seqs": 16,
    "device": "cpu",
    "devices": 1,
    "max_model_len": None,
    "kv_capacity_tokens": None,
    "warm_up": None,
    "measured": None,
    "shape": None,
    "probes": None,
}
SHAPE = {
    "weight_bytes": 1e9,
    "kv_bytes_per_token": 1e5,
    "flops_per_token": 1e9,
    "attention_flops": 1e3,
    "compute_bits": 16,
}


async def info(**changes: Any) -> dict[str, Any]:
    lifecycle = Lifecycle()
    lifecycle.info |= KNOWN | changes
    async with TestClient(TestServer(control_app(lifecycle))) as client:
        answer = await client.get("/info")
        assert answer.status == 200
        told: dict[str, Any] = await answer.json()
        return told


async def test_it_tells_what_is_known() -> None:
    told = await info(shape=SHAPE)

    assert {name: told[name] for name in KNOWN} == KNOWN | {"shape": SHAPE}
    assert told["phase"] == "starting"


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ({"device": "x" * 300}, {"device": "x" * 100}),
        ({"measured": {"decode_steps": [{"batch": 1, "seconds": 0.0}]}}, {"measured": None}),
        ({"shape": {**SHAPE, "attention_flops": 0}}, {"shape": None}),
    ],
)
async def test_a_part_that_makes_no_sense_costs_only_that_part(
    changes: dict[str, Any], left: dict[str, Any]
) -> None:
    told = await info(**changes)

    assert {name: told[name] for name in KNOWN} == KNOWN | left
