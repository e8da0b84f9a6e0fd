"""The users of vLLM's port: those that know the pool's key, and readers of its health."""

import importlib
from collections.abc import Mapping
from typing import Any

import pytest

from tandem_contracts.names import KEY_ENV
from tandem_engine.serve.engine_command import PLUGINS, vllm_command
from tests.unit.serve.given import facts, settings

KEY = "open-sesame"


@pytest.fixture
def guard(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(PLUGINS))
    monkeypatch.setenv(KEY_ENV, KEY)
    return importlib.import_module("tandem_guard")


async def called(guard: Any, path: str, *authorizations: str, **scope: Any) -> list[dict[str, Any]]:
    """Return the messages sent for one request; an empty list where the application was called."""
    sent: list[dict[str, Any]] = []

    async def app(scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        await send({"type": "passed"})

    async def receive() -> dict[str, Any]:
        raise AssertionError("the body is not read")

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(b"authorization", each.encode()) for each in authorizations]
    request = {"type": "http", "method": "POST", "path": path, "headers": headers} | scope
    await guard.Guard(app)(request, receive, send)
    return sent


PASSED = [{"type": "passed"}]


@pytest.mark.parametrize(
    "path",
    [
        *("/v1/completions", "/v1/chat/completions", "/invocations", "/tokenize", "/pause"),
        *("/inference/v1/generate", "/collective_rpc", "/health", "/metrics", "/docs", "/", ""),
        *("//metrics", "/metrics/../v1/completions", "/load"),
    ],
)
@pytest.mark.parametrize("given", [(), ("Bearer x",), ("Bearer ",), (KEY,), ("Basic " + KEY,)])
async def test_a_caller_without_the_key_has_no_effect(
    guard: Any, path: str, given: tuple[str, ...]
) -> None:
    start, body = await called(guard, path, *given)

    assert start["status"] == 401
    assert KEY.encode() not in body["body"]


@pytest.mark.parametrize("path", ["/v1/completions", "/invocations", "/tokenize"])
async def test_a_caller_with_the_key_is_admitted(guard: Any, path: str) -> None:
    assert await called(guard, path, f"Bearer {KEY}") == PASSED


async def test_a_second_authorization_does_not_help(guard: Any) -> None:
    assert await called(guard, "/v1/models", f"Bearer {KEY}", "Bearer x") != PASSED


@pytest.mark.parametrize("path", ["/health", "/metrics", "/version"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_health_and_metrics_stay_open_to_readers(guard: Any, path: str, method: str) -> None:
    assert await called(guard, path, method=method) == PASSED


async def test_an_options_request_is_no_way_in(guard: Any) -> None:
    assert await called(guard, "/v1/completions", method="OPTIONS") != PASSED


async def test_a_websocket_without_the_key_is_closed_before_it_opens(guard: Any) -> None:
    (sent,) = await called(guard, "/v1/realtime", type="websocket")

    assert sent["type"] == "websocket.close"


async def test_the_start_of_the_server_is_passed_on(guard: Any) -> None:
    assert await called(guard, "", type="lifespan") == PASSED


def test_an_engine_without_its_key_does_not_start(
    guard: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(KEY_ENV)

    with pytest.raises(RuntimeError, match=KEY_ENV):
        guard.Guard(None)


def test_vllm_is_guarded_where_there_is_a_key_and_never_sees_it_as_an_argument() -> None:
    guarded = vllm_command(settings(), facts(environment={KEY_ENV: KEY}))
    open_to_all = vllm_command(settings(), facts(environment={}))

    assert "--middleware=tandem_guard.Guard" in guarded.argv
    assert KEY not in str(guarded)
    assert not [each for each in open_to_all.argv if each.startswith("--middleware")]
