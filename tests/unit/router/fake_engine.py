"""A scripted engine that speaks vLLM's P/D protocol on loopback, and misbehaves on order."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from multidict import CIMultiDictProxy

from tandem_engine.router.probing.probes import PROBE_ID
from tests.unit.router import fake_named


@dataclass
class Script:
    """The engine's behaviour towards the next requests."""

    prefill_s: float = 0.0
    first_token_s: float = 0.0
    gap_s: float = 0.0
    linger_s: float = 0.0
    tokens: int = 4
    usage_tokens: int | None = None
    statuses: list[int] = field(default_factory=list)
    error: dict[str, Any] | None = None
    error_never_ends: bool = False
    freeze: bool = False
    freeze_after: int | None = None
    cut_after: int | None = None
    end_after: int | None = None
    error_event_after: int | None = None
    abort: bool = False
    kv: bool = True
    kv_more: dict[str, Any] = field(default_factory=dict)
    kv_ends_s: Callable[[], float] | None = None
    continuous: bool = True
    final_usage: bool = True
    cached_tokens: int | None = None
    tokens_per_chunk: int = 1
    text: str | None = None
    named_parts: list[dict[str, Any]] | None = None
    stop_reason: str = "end_turn"
    tokenizer_answer: web.Response | None = None
    prefill_usage: Any = None
    garbage_after: int | None = None
    garbage: bytes = b"{nonsense"
    hold: asyncio.Event | None = None
    drop: bool = False
    dies_of: str | None = None
    dies_after: int | None = None
    unpullable: frozenset[str] = frozenset()


@dataclass
class Seen:
    path: str
    body: dict[str, Any]
    headers: CIMultiDictProxy[str]
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_prefill(self) -> bool:
        return bool((self.body.get("kv_transfer_params") or {}).get("do_remote_decode"))


class FakeEngine:
    """One engine pod."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.script = Script()
        self.seen: list[Seen] = []
        self.arrived = asyncio.Condition()
        self.port = 0
        self.probes = 0
        self.streams_ended = 0
        self.dead = False
        self.metrics = ""
        self.let_go: list[dict[str, Any]] = []
        self.tokenized: list[Seen] = []
        self._runner: web.AppRunner | None = None

    async def start(self, port: int = 0) -> "FakeEngine":
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/v1/completions", self._generate)
        app.router.add_post("/v1/chat/completions", self._generate)
        for path in fake_named.PATHS:
            app.router.add_post(path, self._generate)
        for path in ("/tokenize", "/detokenize", "/v1/messages/count_tokens"):
            app.router.add_post(path, self._tokenizer)
        app.router.add_get("/health", self._health)
        app.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.01)
        await self._runner.setup()
        self._site = web.TCPSite(self._runner, "127.0.0.1", port)
        await self._site.start()
        self.dead = False
        self.port = self._runner.addresses[0][1]
        return self

    async def stop(self) -> None:
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()

    def _is_deadly(self, seen: Seen) -> bool:
        return self.script.dies_of is not None and self.script.dies_of in json.dumps(seen.body)

    async def _die(self) -> None:
        """End as a process does: nothing listens any more, and every connection breaks."""
        self.dead = True
        await self._site.stop()

    async def wait_seen(self, count: int) -> Seen:
        async with asyncio.timeout(60), self.arrived:
            await self.arrived.wait_for(lambda: len(self.seen) >= count)
        return self.seen[count - 1]

    async def _health(self, request: web.Request) -> web.Response:
        self.probes += 1
        if self.dead:
            assert request.transport is not None
            request.transport.abort()
        if self.script.freeze:
            await asyncio.sleep(60)
        return web.Response()

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(text=self.metrics)

    async def _tokenizer(self, request: web.Request) -> web.StreamResponse:
        self.tokenized.append(Seen(request.path, await request.json(), request.headers))
        if self.script.hold is not None:
            await self.script.hold.wait()
        if self.script.statuses:
            document = self.script.error or {"error": {"message": "scripted", "type": "scripted"}}
            return web.json_response(document, status=self.script.statuses.pop(0))
        if self.script.tokenizer_answer is not None:
            return self.script.tokenizer_answer
        return web.json_response({"count": 2, "tokens": [7, 8], "engine": self.name})

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if body["model"] != "tiny":
            self.let_go.append(body["kv_transfer_params"])
            return web.json_response({"error": {"message": "no such model"}}, status=404)
        seen = Seen(request.path, body, request.headers)
        if request.headers.get("X-Request-Id", "").startswith(PROBE_ID):
            self.probes += 1
            return await self._answer(request, seen)
        async with self.arrived:
            self.seen.append(seen)
            self.arrived.notify_all()
        try:
            return await self._answer(request, seen)
        except asyncio.CancelledError:
            seen.cancelled.set()
            raise

    async def _answer(self, request: web.Request, seen: Seen) -> web.StreamResponse:
        script = self.script
        if script.freeze:
            await asyncio.sleep(60)
        if script.hold is not None:
            await script.hold.wait()
        if script.dies_after is None and self._is_deadly(seen):
            await self._die()
        if script.drop or self.dead:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        kv_params = seen.body.get("kv_transfer_params") or {}
        if kv_params.get("remote_engine_id") in script.unpullable:
            return web.json_response({"error": {"message": "scripted"}}, status=500)
        if script.statuses:
            status = script.statuses.pop(0)
            if script.error_never_ends:
                response = web.StreamResponse(status=status)
                await response.prepare(request)
                await asyncio.sleep(60)
            document = script.error or {"error": {"message": "scripted", "type": "scripted"}}
            return web.json_response(document, status=status)
        chat = request.path.endswith("chat/completions")
        if seen.is_prefill:
            await asyncio.sleep(script.prefill_s)
            return web.json_response(self._prefill_answer(seen))
        await asyncio.sleep(script.first_token_s)
        if seen.path in fake_named.PATHS:
            return await self._named(request, seen)
        return await self._stream(request, seen, chat=chat)

    def _prefill_answer(self, seen: Seen) -> dict[str, Any]:
        answer: dict[str, Any] = {
            "id": "cmpl-prefill",
            "choices": [{"index": 0, "text": "x", "finish_reason": "length"}],
            "usage": self.script.prefill_usage or self._usage(seen, 1),
        }
        if seen.path in fake_named.PATHS:
            answer = fake_named.prefill_answer(seen.path, self._named_usage(seen, 1))
        if self.script.kv:
            answer["kv_transfer_params"] = {
                "do_remote_prefill": True,
                "do_remote_decode": False,
                "remote_engine_id": self.name,
                "remote_block_ids": [[1, 2, 3]],
                "remote_host": "127.0.0.1",
                "remote_port": 5600,
                "tp_size": 1,
                **self.script.kv_more,
            }
            if self.script.kv_ends_s is not None:
                answer["kv_transfer_params"] |= {
                    "remote_blocks_expiry_time": self.script.kv_ends_s(),
                    "remote_request_id": f"cmpl-{len(self.seen)}",
                    "tandem_lease": seen.body["kv_transfer_params"]["tandem_lease"],
                }
        return answer

    def _usage(self, seen: Seen, output: int) -> dict[str, Any]:
        prompt = prompt_tokens(seen.body)
        usage: dict[str, Any] = {
            "prompt_tokens": prompt,
            "total_tokens": prompt + output,
            "completion_tokens": output,
        }
        if self.script.cached_tokens is not None:
            usage["prompt_tokens_details"] = {"cached_tokens": self.script.cached_tokens}
        return usage

    def _named_usage(self, seen: Seen, output: int) -> dict[str, Any]:
        return fake_named.usage_of(
            seen.path,
            prompt=prompt_tokens(seen.body),
            output=output,
            cached=self.script.cached_tokens,
        )

    async def _named(self, request: web.Request, seen: Seen) -> web.StreamResponse:
        script, path, text = self.script, seen.path, ""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(fake_named.frames(fake_named.head(path, seen.body)))
        if script.named_parts is not None:
            await response.write(fake_named.frames(script.named_parts))
        for made in range(script.tokens if script.named_parts is None else 0):
            if await self._misbehaves(request, response, made):
                return response
            events = fake_named.delta(path, f" t{made}", first=not made)
            text += f" t{made}"
            await response.write(fake_named.frames(events))
            await asyncio.sleep(script.gap_s)
        usage = self._named_usage(seen, script.usage_tokens or script.tokens)
        reason = None if script.abort else script.stop_reason
        end = fake_named.tail(path, seen.body, text, usage, stop_reason=reason)
        await response.write(fake_named.frames(end))
        self.streams_ended += 1
        return response

    async def _stream(self, request: web.Request, seen: Seen, *, chat: bool) -> web.StreamResponse:
        script, body = self.script, seen.body
        options = body.get("stream_options") or {}
        continuous = script.continuous and options.get("continuous_usage_stats")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        choices = range(body.get("n") or 1)

        async def send(document: dict[str, Any]) -> None:
            await response.write(b"data: " + json.dumps(document).encode() + b"\n\n")

        def head(choice: dict[str, Any]) -> dict[str, Any]:
            kind = "chat.completion.chunk" if chat else "text_completion"
            return {
                "id": "cmpl-1",
                "object": kind,
                "created": 1,
                "model": body["model"],
                "choices": [choice],
            }

        if script.abort:
            await send(head({"index": 0, "text": "", "delta": {}, "finish_reason": "abort"}))
            return response
        if chat:
            for index in choices:
                chunk = head({"index": index, "delta": {"role": "assistant", "content": ""}})
                if continuous:
                    chunk["usage"] = self._usage(seen, 0)
                await send(chunk)
        made = 0
        while made < script.tokens:
            if script.dies_after == made and self._is_deadly(seen):
                await self._die()
            if await self._misbehaves(request, response, made):
                return response
            step = min(script.tokens_per_chunk, script.tokens - made)
            text = script.text or "".join(f" t{number}" for number in range(made, made + step))
            made += step
            last = made == script.tokens
            for index in choices:
                chunk = head(
                    {
                        "index": index,
                        "finish_reason": "length" if last else None,
                        "stop_reason": None,
                        "logprobs": {"tokens": [text], "token_logprobs": [-0.5]}
                        if body.get("logprobs")
                        else None,
                        **({"delta": {"content": text}} if chat else {"text": text}),
                    }
                )
                if continuous:
                    chunk["usage"] = self._usage(seen, made)
                await send(chunk)
            if not last:
                await asyncio.sleep(script.gap_s)
        if options.get("include_usage") and script.final_usage:
            report = head({})
            report["choices"] = []
            report["usage"] = self._usage(seen, script.usage_tokens or made * len(choices))
            await send(report)
        await response.write(b"data: [DONE]\n\n")
        self.streams_ended += 1
        await asyncio.sleep(script.linger_s)
        return response

    async def _misbehaves(
        self, request: web.Request, response: web.StreamResponse, made: int
    ) -> bool:
        """Do what the script has for this point of the stream; true where it ends there."""
        script = self.script
        if script.freeze_after == made:
            await asyncio.sleep(60)
        if script.cut_after == made or self.dead:
            assert request.transport is not None
            request.transport.abort()
            return True
        if script.garbage_after == made:
            await response.write(b"data: " + script.garbage + b"\n\n")
            return True
        if script.error_event_after == made:
            document = script.error or {"error": {"message": "scripted", "code": 500}}
            await response.write(b"data: " + json.dumps(document).encode() + b"\n\n")
            return True
        return script.end_after == made


def prompt_tokens(body: dict[str, Any]) -> int:
    if "input" in body:
        return len(body["input"].split())
    if "messages" in body:
        return sum(len(str(message["content"]).split()) for message in body["messages"]) + 3
    prompt = body["prompt"]
    if isinstance(prompt, str):
        return len(prompt.split())
    if all(isinstance(one, int) for one in prompt):
        return len(prompt)
    return sum(prompt_tokens({"prompt": one}) for one in prompt)
