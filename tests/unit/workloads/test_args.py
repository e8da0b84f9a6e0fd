"""The arguments that pods are given are arguments that the launcher takes."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem_engine.router.entry import parser
from tandem_engine.router.settings_in_force import parse_settings
from tandem_engine.serve.engine_settings import Device, Role
from tandem_engine.serve.options import parse
from tandem_engine.serve.refusals import FORBIDDEN, OWNED, refusal
from tandem_operator.workloads.pass_plan import plan
from tests.unit.serve.given import facts
from tests.unit.workloads.cluster import NOW_S, child, container, pool, world


def launched(component: str, *changes: Any) -> Any:
    made = plan(world(pool(*changes)), now_s=NOW_S)
    parsed, print_command = parse(container(made, component)["args"])
    assert not print_command
    return parsed


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_the_launcher_reads_what_the_pool_says(role):
    parsed = launched(role, {"prefill": {"podTemplate": {}}, "engine": {"blockSize": 32}})

    assert parsed.role == Role(role)
    assert parsed.model == "/models/tiny"
    assert parsed.name == "tiny"
    assert parsed.device is Device.CPU
    assert (parsed.port, parsed.control_port, parsed.side_channel_port) == (8000, 8001, 5600)
    assert parsed.max_model_len == 2048
    assert parsed.max_num_seqs == 16
    assert parsed.kv_cache_memory_bytes == 64 * 1024**2
    assert parsed.block_size == 32
    assert parsed.dtype == "float32"
    assert parsed.prefix_caching is True


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_engines_and_routers_go_by_the_same_lease(role):
    made = plan(world(pool()), now_s=NOW_S)
    settings = child(made.children, "ConfigMap", "tiny-router")["data"]["router.json"]

    assert parse(container(made, role)["args"])[0].kv_lease_s == parse_settings(settings).kv.lease_s
    assert any(argument.startswith("--kv-lease-s=") for argument in container(made, role)["args"])
    assert "kv" in json.loads(settings)


@pytest.mark.parametrize(
    ("argument", "field", "value"),
    [
        ("--kv-cache-dtype=fp8", "kv_cache_dtype", "fp8"),
        ("--kv_cache_dtype=fp8_e4m3", "kv_cache_dtype", "fp8_e4m3"),
        ("--enforce-eager", "eager", True),
        ("--no-enforce-eager", "eager", False),
    ],
)
def test_what_the_launcher_decides_by_reaches_it_from_the_extra_arguments(argument, field, value):
    parsed = launched("decode", {"engine": {"device": "NVIDIA", "extraArgs": [argument]}})

    assert getattr(parsed, field) == value
    assert parsed.extra_arg == ()
    assert refusal(parsed, facts()) is None


@pytest.mark.parametrize("option", sorted(OWNED | FORBIDDEN))
def test_a_pool_whose_engines_would_refuse_an_argument_is_not_taken(option):
    # Those that the launcher is given under its own name.
    argument = {"--kv-cache-dtype": "--kv-cache-dtype=auto"}.get(option, option)
    engine = {"engine": {"device": "NVIDIA", "extraArgs": [argument]}}

    made = plan(world(pool(engine)), now_s=NOW_S)

    if made.children:
        parsed, _ = parse(container(made, "decode")["args"])
        assert refusal(parsed, facts()) is None


def test_a_decode_engine_warms_up_with_the_prefill_service():
    assert launched("decode").warm_up_peer == "http://tiny-prefill:8000"
    assert launched("prefill").warm_up_peer is None


def test_the_launcher_stops_before_the_kubelet_kills_it():
    grace_s = {"prefill": {"podTemplate": {"spec": {"terminationGracePeriodSeconds": 120}}}}

    parsed = launched("prefill", grace_s)

    assert parsed.drain_timeout_s + parsed.stop_timeout_s < 120


def test_the_router_takes_its_arguments():
    made = plan(world(pool()), now_s=NOW_S)

    parsed = parser().parse_args(container(made, "router")["args"])

    assert (parsed.pool, parsed.namespace) == ("tiny", "serving")
    assert parsed.drain_timeout_s == 285
    assert (parsed.port, parsed.internal_port) == (8000, 9100)


def test_a_revision_on_the_hub_is_passed_on():
    hub = {"repo": "org/model", "revision": "0e9e39f"}

    parsed = launched("decode", {"model": {"source": {"image": None, "huggingFace": hub}}})

    assert (parsed.model, parsed.model_revision) == ("org/model", "0e9e39f")


def test_extra_arguments_reach_the_engine_as_they_are():
    extra = ["--max-num-batched-tokens=4096", "--long-prefill-token-threshold=512"]

    assert launched("prefill", {"engine": {"extraArgs": extra}}).extra_arg == tuple(extra)


ENGINES = st.fixed_dictionaries(
    {
        "device": st.sampled_from(["CPU", "NVIDIA"]),
        "dtype": st.sampled_from(["auto", "bfloat16", "float16", "float32"]),
        "prefixCaching": st.booleans(),
        "maxNumSeqs": st.integers(1, 4096),
    },
    optional={
        "quantization": st.sampled_from(["fp8", "awq"]),
        "blockSize": st.sampled_from([8, 16, 32, 64, 128, 256]),
        "kvCacheMemory": st.sampled_from(["64Mi", "1Gi", 4_000_000_000]),
        "extraArgs": st.lists(st.sampled_from(["--seed=1", "--enable-dbo", "-ep"]), max_size=3),
    },
)


@given(st.sampled_from(["prefill", "decode"]), ENGINES)
@settings(deadline=None, max_examples=60)
def test_the_launcher_takes_the_arguments_of_any_engine(role: str, engine: dict[str, Any]) -> None:
    parsed = launched(role, {"engine": engine})

    assert parsed.dtype == engine["dtype"]
    assert parsed.prefix_caching is engine["prefixCaching"]
    assert parsed.extra_arg == tuple(engine.get("extraArgs", ()))
