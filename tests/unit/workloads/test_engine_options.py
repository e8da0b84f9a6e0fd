"""The options of vLLM that a pool may set."""

from dataclasses import replace

import pytest

from tandem_operator.workloads.builders.vllm_options import ALLOWED
from tandem_operator.workloads.checks.engine_options import BREAKING, REFUSED
from tandem_operator.workloads.pass_plan import plan
from tests.unit.workloads.cluster import INSTALLATION, NOW_S, pool, world


def accepted(*arguments, **installation):
    stored = pool({"engine": {"extraArgs": ["--seed=1", *arguments]}})
    planned = plan(world(stored, installation=replace(INSTALLATION, **installation)), now_s=NOW_S)
    return next(each for each in planned.status["conditions"] if each["type"] == "Accepted")


@pytest.mark.parametrize(
    "argument",
    [
        "--trust-remote-code",
        "--trust_remote_code",
        "--allowed-local-media-path=/",
        "--middleware=os.abort",
        "--worker-extension-cls=evil.Worker",
        "--logging-config.pylogging_config_file=/tmp/x",
        '--structured-outputs-config={"reasoning_parser_plugin": "/tmp/x.py"}',
        "--structured-outputs-config.reasoning_parser_plugin=/tmp/x.py",
        "--otlp-traces-endpoint=http://elsewhere",
        "--chat-template=/proc/self/environ",
        "--trust-remote",
        "--something-new=1",
    ],
)
def test_an_option_that_is_not_on_the_list_is_refused_by_its_place(argument):
    told = accepted(argument)

    assert told["status"] == "False"
    assert f"engine.extraArgs[1]: {argument.partition('=')[0]} is refused" in told["message"]
    assert "pools.allowAnyExtraArgs: true" in told["message"]


@pytest.mark.parametrize(
    "argument",
    [
        "--max-num-batched-tokens=4096",
        "--enable-expert-parallel",
        "--no-enable-chunked-prefill",
        '--speculative-config={"method": "ngram", "num_speculative_tokens": 4}',
        "--speculative-config.method=ngram",
        "--structured-outputs-config.backend=xgrammar",
        "--gpu_memory_utilization=0.9",
    ],
)
def test_an_option_that_only_changes_how_an_engine_computes_is_taken(argument):
    assert accepted(argument)["status"] == "True"


@pytest.mark.parametrize(
    ("argument", "instead"),
    [
        ("--pipeline-parallel-size=2", "gpusPerReplica: 2"),
        ("--pipeline_parallel_size=2", "gpusPerReplica: 2"),
        ("--pipeline-parallel=2", "gpusPerReplica: 2"),
        ("-pp=2", "gpusPerReplica: 2"),
        ("-dp=2", "maxReplicas: 4"),
        ("-n2", "maxReplicas: 4"),
        ("--data-parallel-size=8", "maxReplicas: 4"),
        ("--enable-lora", "merged weights"),
        ("--lora-modules=a=/models/a", "merged weights"),
        ("--kv-offloading-size=40", "leave it out"),
        ("--runner=pooling", "leave it out"),
        ("--no-enable-prompt-tokens-details", "leave it out"),
        ("--served-model=other", "leave it out"),
        ("--kv-transfer={}", "leave it out"),
        ("-t=2", "leave it out"),
        ("--no-disable-uvicorn", "leave it out"),
    ],
)
@pytest.mark.parametrize("opened", [False, True])
def test_an_option_that_breaks_every_pool_is_refused_whatever_an_installation_allows(
    argument, instead, opened
):
    told = accepted(argument, any_extra_args=opened)

    assert told["status"] == "False"
    assert f"engine.extraArgs[1]: {argument.partition('=')[0]} is refused" in told["message"]
    assert instead in told["message"]
    assert "allowAnyExtraArgs" not in told["message"]


def test_an_installation_may_open_it():
    assert accepted("--trust-remote-code", any_extra_args=True)["status"] == "True"


def test_no_option_is_both_allowed_and_refused():
    assert not ALLOWED & REFUSED.keys()
    assert not ALLOWED & BREAKING.keys()
    assert not REFUSED.keys() & BREAKING.keys()
