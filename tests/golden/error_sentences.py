"""The sentences that refuse an input: of the API's rules, of the router and of the launcher."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from tandem_engine.router.http.bodies import body_too_large
from tandem_engine.router.openai.call import parse_call
from tandem_engine.router.openai.endpoints import EndpointKind
from tandem_engine.router.openai.errors import ApiError
from tandem_engine.router.openai.fields import REFUSED
from tandem_engine.router.settings_in_force import parse_settings
from tandem_engine.serve.engine_facts import Checkpoint
from tandem_engine.serve.engine_failures import explain
from tandem_engine.serve.engine_image import EngineImage, image_refusal
from tandem_engine.serve.refusals import FORBIDDEN, refusal
from tandem_operator.api import InvalidPoolError, parse_pool
from tandem_operator.api.crd import custom_resource_definition
from tests.unit.router.pool import settings_document
from tests.unit.router.test_refusals import BAD_BODIES
from tests.unit.serve.given import AVX2, facts, settings
from tests.unit.workloads.cluster import pool

BAD_POOLS: tuple[Mapping[str, Any], ...] = (
    {"model": {"maxModelLen": "long"}},
    {"model": {"maxModelLen": -1}},
    {"model": {"name": None}},
    {"model": {"surprise": 1}},
    {"prefill": {"resources": {"limits": {"memory": "much"}}}},
    {"prefill": {"maxReplicas": 1000}},
    {"engine": {"prefixCaching": "yes"}},
    {"engine": {"dtype": "int3"}},
    {"engine": {"extraArgs": "--x"}},
    {"slo": {"attainment": "105%"}},
    {"slo": {"ttft": {"target": "soon"}}},
    {"router": {"minReplicas": 4, "maxReplicas": 2}},
)
LAUNCHES: tuple[tuple[Mapping[str, Any], Mapping[str, Any]], ...] = (
    ({"kv_cache_dtype": "fp8"}, {"cpu_flags": AVX2}),
    ({"kv_cache_dtype": "fp8_e4m3"}, {}),
    ({"kv_cache_dtype": "int8_per_token_head"}, {}),
    ({"quantization": "fp8"}, {}),
    ({}, {"checkpoint": Checkpoint(quantization="awq", weight_bits=4), "cpu_flags": AVX2}),
    ({"extra_arg": ("--enable-sleep-mode",)}, {}),
    ({"extra_arg": ("--kv-offloading-size=4",)}, {}),
    ({"extra_arg": ("--port=1",)}, {}),
    ({"tensor_parallel_size": 2}, {}),
    ({"eager": False}, {}),
    ({"required_cache": "/cache"}, {"cache_dir": "/tmp/x"}),
    ({"max_model_len": 9000}, {"checkpoint": Checkpoint(max_positions=4096)}),
    ({"device": "cuda", "dtype": "float32", "quantization": "awq"}, {}),
    *(({"extra_arg": (option,)}, {}) for option in FORBIDDEN),
)
BAD_SETTINGS: tuple[Mapping[str, Any], ...] = (
    {"control_port": 8000, "port": 8000},
    {"not_live_after_s": 5.0, "not_ready_after_s": 10.0},
    {"role": "prefill", "warm_up_peer": "http://tiny-prefill:8000"},
    {"warm_up_peer": "tiny-prefill"},
)
BAD_IMAGES = (
    EngineImage(has_vllm=False, has_nixl=False, vllm_version=None),
    EngineImage(has_vllm=True, has_nixl=True, vllm_version="0.31.0"),
    EngineImage(has_vllm=True, has_nixl=False, vllm_version="0.32.0"),
    EngineImage(has_vllm=True, has_nixl=True, vllm_version="0.32.0"),
)
LAST_LINES = (
    "ValueError: Unknown quantization method: banana",
    "ValueError: quantization method awq does not match",
    "ValueError: max_model_len (9000) is greater than the derived max_model_len (4096)",
    "OSError: No model weights found",
    "botocore.exceptions.NoCredentialsError: Unable to locate credentials",
    "botocore.exceptions.ClientError: An error occurred (AccessDenied) when calling x",
    "botocore.errorfactory.NoSuchBucket: An error occurred (NoSuchBucket) when calling x",
    "botocore.exceptions.EndpointConnectionError: Could not connect to the endpoint URL",
    "RuntimeError: Cannot find any safetensors model weights with `s3://models/tiny`",
    "GatedRepoError: Access to model x is restricted",
    "RevisionNotFoundError: x",
    "RepositoryNotFoundError: x",
    "HTTPError: Invalid credentials",
    "LocalEntryNotFoundError: x",
    "torch.OutOfMemoryError: CUDA out of memory",
    "ValueError: No available memory for the cache blocks",
    "RuntimeError: NIXL is not available",
    "OSError: Address already in use",
    "OSError: No space left on device",
    "MemoryError: x",
    "RuntimeError: Engine core initialization failed",
)


def rules() -> Iterator[str]:
    """Yield the API server's objections to a spec, by the rules of the CRD."""
    yield from _messages(custom_resource_definition())


def _messages(node: Any) -> Iterator[str]:
    if isinstance(node, Mapping):
        yield from (rule["message"] for rule in node.get("x-kubernetes-validations") or ())
        node = list(node.values())
    if isinstance(node, list):
        for each in node:
            yield from _messages(each)


def pools() -> Iterator[str]:
    """Yield the sentences of a manifest's reader on a bad field."""
    for change in BAD_POOLS:
        try:
            parse_pool(pool(change), strict=True)
        except InvalidPoolError as error:
            yield str(error)


def requests() -> Iterator[str]:
    """Yield the answers of the router to a client with a bad body."""
    limits = parse_settings(json.dumps(settings_document()))
    fields = [{"model": "tiny", "prompt": "x", name: "x"} for name in (*REFUSED, "surprise")]
    salt = {"model": "tiny", "prompt": "x", "cache_salt": 1}
    deep = b'{"model": "tiny", "prompt": ' + b"[" * 300 + b"]" * 300 + b"}"
    for body in (*(bad for bad, _, _ in BAD_BODIES), *fields, salt, deep):
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        try:
            parse_call(EndpointKind.COMPLETIONS, raw, limits)
        except ApiError as error:
            yield error.message
    try:
        parse_call(EndpointKind.CHAT, b'{"model": "tiny", "messages": []}', limits)
    except ApiError as error:
        yield error.message
    response = {"model": "tiny", "input": "x"}
    for more in ({"input": []}, {"tools": [{"type": "mcp"}]}, {"prompt": {"id": "p"}}):
        try:
            parse_call(EndpointKind.RESPONSES, json.dumps(response | more).encode(), limits)
        except ApiError as error:
            yield error.message
    yield body_too_large(4_194_304).message


def launches() -> Iterator[str]:
    """Yield the sentences with which the launcher refuses to start."""
    for given, surroundings in LAUNCHES:
        yield refusal(settings(**given), facts(**surroundings)) or ""
    yield from (image_refusal(image, model="s3://models/tiny") or "" for image in BAD_IMAGES)
    for given in BAD_SETTINGS:
        try:
            settings(**given)
        except ValidationError as error:
            yield error.errors()[0]["msg"].removeprefix("Value error, ")


def failures() -> Iterator[str]:
    """Yield why an engine did not start."""
    for line in LAST_LINES:
        yield explain([line], exit_code=1, during="while starting")
    for exit_code in (-9, -4, -11, 0):
        yield explain([], exit_code=exit_code, during="while starting")
