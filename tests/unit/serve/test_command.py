import json

import pytest
from syrupy.assertion import SnapshotAssertion

from tandem_engine.serve.engine_command import PLUGINS, EngineCommand, vllm_command
from tandem_engine.serve.engine_settings import Device, Role
from tests.unit.serve.given import facts, settings


def option(command: EngineCommand, name: str) -> str | None:
    prefix = f"--{name}="
    return next((a.removeprefix(prefix) for a in command.argv if a.startswith(prefix)), None)


@pytest.mark.parametrize("device", Device)
@pytest.mark.parametrize("role", Role)
def test_command_of_each_role_and_device(
    role: Role, device: Device, snapshot: SnapshotAssertion
) -> None:
    command = vllm_command(
        settings(role=role, device=device, max_model_len=2048, block_size=32), facts()
    )

    environment = {
        name: value.replace(str(PLUGINS), "PLUGINS") for name, value in command.env.items()
    }
    assert {"argv": command.argv, "env": environment} == snapshot


def test_roles_differ_in_nothing_but_the_kv_role() -> None:
    prefill, decode = (vllm_command(settings(role=role), facts()) for role in Role)

    differing = [pair for pair in zip(prefill.argv, decode.argv, strict=True) if len({*pair}) > 1]
    ((one, other),) = differing
    assert one.replace("kv_producer", "kv_consumer") == other
    assert prefill.env == decode.env


def test_a_lost_prefill_pod_means_recomputing_not_failing() -> None:
    command = vllm_command(settings(kv_lease_s=12), facts())

    config = json.loads(option(command, "kv-transfer-config") or "")
    assert config["kv_load_failure_policy"] == "recompute"
    assert config["kv_connector_module_path"] == "tandem_nixl_lease"
    assert (PLUGINS / "tandem_nixl_lease.py").is_file()
    assert config["kv_connector_extra_config"]["kv_lease_duration"] == 12


def test_peers_are_told_the_pods_own_address() -> None:
    assert vllm_command(settings(), facts()).env["VLLM_NIXL_SIDE_CHANNEL_HOST"] == "10.1.2.3"


def test_a_pod_with_an_ipv6_address_is_listened_for_there() -> None:
    assert option(vllm_command(settings(), facts()), "host") == "0.0.0.0"
    assert option(vllm_command(settings(), facts(pod_ip="fd00::7")), "host") == "::"
    chosen = vllm_command(settings(host="127.0.0.1"), facts(pod_ip="fd00::7"))
    assert option(chosen, "host") == "127.0.0.1"


def test_a_cpu_engine_takes_the_pods_limit_in_whole_threads() -> None:
    assert vllm_command(settings(), facts(cpu_limit=0.25)).env["OMP_NUM_THREADS"] == "1"
    assert vllm_command(settings(), facts(cpu_limit=6.5)).env["OMP_NUM_THREADS"] == "6"
    chosen = vllm_command(settings(cpu_threads=3), facts(cpu_limit=6.5))
    assert chosen.env["OMP_NUM_THREADS"] == "3"


def test_a_local_model_is_never_looked_up_on_the_network() -> None:
    assert vllm_command(settings(), facts()).env["HF_HUB_OFFLINE"] == "1"


def test_a_repository_is_fetched_at_its_revision() -> None:
    asked = settings(model="org/name", model_revision="abc123")
    command = vllm_command(asked, facts(model_is_local=False))

    assert option(command, "revision") == "abc123"
    assert "HF_HUB_OFFLINE" not in command.env


def test_vllm_streams_a_bucket_unless_the_pool_asks_for_another_loader() -> None:
    bucket, remote = "s3://models/llama", facts(model_is_local=False)
    sharded = settings(model=bucket, extra_arg=("--load-format=runai_streamer_sharded",))

    assert option(vllm_command(settings(model=bucket), remote), "load-format") == "runai_streamer"
    assert [each for each in vllm_command(sharded, remote).argv if "--load-format" in each] == [
        "--load-format=runai_streamer_sharded"
    ]
    assert not [each for each in vllm_command(settings(), facts()).argv if "load-format" in each]


def test_caches_lie_where_a_read_only_pod_may_write() -> None:
    command = vllm_command(settings(), facts(cache_dir="/tmp/x"))

    ends = ("_HOME", "_CACHE_DIR", "_CACHE_ROOT")
    caches = {name: path for name, path in command.env.items() if name.endswith(ends)}
    assert {"HF_HOME", "VLLM_CACHE_ROOT", "TRITON_CACHE_DIR"} <= caches.keys()
    assert all(path.startswith("/tmp/x/") for path in caches.values())


def test_a_gpu_engine_keeps_its_start_up_plan_in_the_cache_unless_told_otherwise() -> None:
    plan = "VLLM_ENABLE_STARTUP_PLAN"
    on_gpu = settings(device="cuda")

    assert vllm_command(on_gpu, facts()).env[plan] == "1"
    assert plan not in vllm_command(on_gpu, facts(environment={plan: "0"})).env
    assert plan not in vllm_command(settings(), facts()).env


def test_a_pod_template_may_choose_its_own_cache() -> None:
    command = vllm_command(settings(), facts(environment={"HF_HOME": "/mnt/weights"}))

    assert "HF_HOME" not in command.env


def test_a_pod_template_may_choose_the_size_of_tcp_segments() -> None:
    own = vllm_command(settings(), facts(environment={"UCX_TCP_TX_SEG_SIZE": "64k"})).env
    other = vllm_command(settings(), facts()).env

    assert "UCX_TCP_TX_SEG_SIZE" not in own
    assert own["UCX_TCP_RX_SEG_SIZE"] == other["UCX_TCP_RX_SEG_SIZE"] == "256k"
    assert other["UCX_TCP_TX_SEG_SIZE"] == "256k"


def test_no_secret_is_part_of_the_printed_command() -> None:
    command = vllm_command(settings(), facts(environment={"HF_TOKEN": "hf_secret"}))

    assert "hf_secret" not in repr(command)


def test_further_arguments_come_last_and_as_they_are() -> None:
    command = vllm_command(settings(extra_arg=("--long-option=a b",)), facts())

    assert command.argv[-1] == "--long-option=a b"


def test_pythonpath_of_the_image_is_kept_behind_the_plugin() -> None:
    command = vllm_command(settings(), facts(environment={"PYTHONPATH": "/opt/tandem"}))

    assert command.env["PYTHONPATH"] == f"{PLUGINS}:/opt/tandem"
