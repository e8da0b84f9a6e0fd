"""The calls of a server, and all that a client can see of each answer."""

import json
from collections.abc import Mapping
from operator import attrgetter
from typing import Any

import aiohttp
import anthropic
import openai

from benchmarks.conformance.calls import Call

_HEADERS = (
    *("content-type", "allow", "location", "server", "x-request-id", "retry-after"),
    "access-control-allow-origin",
)
_TIMEOUT_S = 120.0


class Clients:
    """The official clients for one server, and one for bare HTTP."""

    def __init__(self, url: str) -> None:
        given: dict[str, Any] = {"api_key": "none", "max_retries": 0, "timeout": _TIMEOUT_S}
        self._url = url
        self._clients: dict[str, Any] = {
            "openai": openai.AsyncOpenAI(base_url=f"{url}/v1", **given),
            "anthropic": anthropic.AsyncAnthropic(base_url=url, **given),
        }
        self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S))

    async def close(self) -> None:
        """Close every connection."""
        for client in self._clients.values():
            await client.close()
        await self._http.close()

    async def answer(self, call: Call) -> dict[str, Any]:
        """Return the answer's status, headers and content, or the error of the client's method."""
        if call.client == "http":
            return await self._bare(call)
        resource, _, method = call.method.rpartition(".")
        bound = getattr(
            attrgetter(f"{resource}.with_raw_response")(self._clients[call.client]), method
        )
        try:
            raw = await bound(**call.arguments)
        except (openai.APIStatusError, anthropic.APIStatusError) as error:
            response = error.response
            return self._head(response.status_code, response.headers) | {
                "raised": type(error).__name__,
                "body": _document(response.text),
            }
        found = self._head(raw.status_code, raw.headers)
        parsed = raw.parse()
        if hasattr(parsed, "__await__"):
            parsed = await parsed
        if not call.arguments.get("stream"):
            return found | {"body": _dump(parsed)}
        events = []
        try:
            async for event in parsed:
                events.append(_dump(event))
        except (openai.APIError, anthropic.APIError) as error:
            found["raised"] = type(error).__name__
        return found | {"events": events}

    async def _bare(self, call: Call) -> dict[str, Any]:
        method, _, path = call.method.partition(" ")
        body = call.arguments
        if not isinstance(body, bytes):
            body = b"" if method == "GET" else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", **call.headers}
        async with self._http.request(
            method, self._url + path, data=body, headers=headers, allow_redirects=False
        ) as response:
            found = self._head(response.status, response.headers)
            text = await response.text()
        if found["header"].get("content-type", "").startswith("text/event-stream"):
            return found | {"ends": text[-len("data: [DONE]\n\n") :]}
        return found | {"body": _document(text)}

    def _head(self, status: int, headers: Mapping[str, str]) -> dict[str, Any]:
        shown = {
            name: headers[name].replace(self._url, "http://HOST")
            for name in _HEADERS
            if name in headers
        }
        return {"status": status, "header": shown}


def _document(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _dump(value: Any) -> Any:
    found = value.to_dict(mode="json", exclude_unset=True, use_api_names=True)
    if isinstance(found, Mapping):
        return {name: each for name, each in found.items() if not name.startswith("_")}
    return found
