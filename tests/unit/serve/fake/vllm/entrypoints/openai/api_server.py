"""A stand-in for vLLM's API server with its paths and metric names, whose load a test sets.

`POST /fake {"running": 1, "kv_usage": 0.1}` sets the load, `POST /fake {"exit": 3}` ends it with an
error on its output, and `POST /fake {"hung": true}` has it make no token more. Faults:
FAKE_VLLM=dies-at-start, fails-completions, fails-long-answers, stalls-once (four seconds, at the
second prompt of 32 tokens), answers-late (three seconds, once a page).
FAKE_VLLM_COSTS='{"token_s": 0.001, "step_s": 0.01, "stream_s": 0.001}' makes answers take time: so
much per prompt token, per step after the first token, and per step and stream.
"""

import argparse
import asyncio
import json
import os
import sys
from typing import Any

from aiohttp import web

LONG_ANSWER_TOKENS = 4
STALLING_TOKENS, STALLING, STALL_S = 32, 2, 4.0
LATE_S = 3.0
TRACEBACK = """Traceback (most recent call last):
  File "somewhere.py", line 1, in <module>
(EngineCore pid=7) ERROR 11-21 12:00:00 [core.py:1] ValueError: the weights are not weights
RuntimeError: Engine core initialization failed. See root cause above."""

METRICS = """# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0",model_name="tiny"}} {running}
vllm:num_requests_waiting{{engine="0",model_name="tiny"}} {waiting}
vllm:kv_cache_usage_perc{{engine="0",model_name="tiny"}} {kv_usage}
vllm:request_success_total{{engine="0",finished_reason="stop",model_name="tiny"}} {finished}
vllm:request_success_total{{engine="0",finished_reason="length",model_name="tiny"}} 0.0
vllm:generation_tokens_total{{engine="0",model_name="tiny"}} {tokens}
vllm:iteration_tokens_total_count{{engine="0",model_name="tiny"}} {tokens}
vllm:prompt_tokens_by_source_total{{engine="0",source="external_kv_transfer"}} {pulled}
vllm:cache_config_info{{block_size="32",engine="0",num_gpu_blocks="1024"}} 1.0
"""


class Fake:
    def __init__(self, name: str) -> None:
        self.name = name
        self.state = {"running": 0, "waiting": 0, "kv_usage": 0.0, "finished": 0, "pulled": 0}
        self.state["tokens"] = 0
        self.health_status = 200
        self.requests: list[dict[str, object]] = []
        self.short = 0
        self.pages: set[str] = set()
        self.works = asyncio.Event()
        self.works.set()
        self.costs = json.loads(os.environ.get("FAKE_VLLM_COSTS", "{}"))

    async def health(self, request: web.Request) -> web.Response:
        if self.state.get("deaf") and request.transport is not None:
            request.transport.abort()
        return web.Response(status=self.health_status)

    async def metrics(self, request: web.Request) -> web.Response:
        await self._late(request.path)
        return web.Response(text=METRICS.format(**self.state))

    async def models(self, request: web.Request) -> web.Response:
        await self._late(request.path)
        return web.json_response({"data": [{"id": self.name, "max_model_len": 2048}]})

    async def version(self, request: web.Request) -> web.Response:
        await self._late(request.path)
        return web.json_response({"version": "0.32.0"})

    async def completions(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.requests.append(body)
        fault = os.environ.get("FAKE_VLLM")
        if fault == "fails-completions" or (
            fault == "fails-long-answers" and body["max_tokens"] > LONG_ANSWER_TOKENS
        ):
            return web.json_response({"error": {"message": "no such kernel"}}, status=500)
        answer: dict[str, object] = {"choices": [{"text": "x"}]}
        parameters = body.get("kv_transfer_params") or {}
        if parameters.get("do_remote_decode"):
            answer["kv_transfer_params"] = {"do_remote_prefill": True, "remote_host": "x"}
        if parameters.get("do_remote_prefill"):
            self.state["pulled"] += len(body["prompt"])
        await asyncio.sleep(self._seconds(body) + self._stall_s(body))
        await self.works.wait()
        self.state["tokens"] += body["max_tokens"]
        return web.json_response(answer)

    def _seconds(self, body: dict[str, object]) -> float:
        prompts = body["prompt"]
        many = isinstance(prompts[0], list)
        streams, tokens = (len(prompts), sum(map(len, prompts))) if many else (1, len(prompts))
        cost = {"token_s": 0.0, "step_s": 0.0, "stream_s": 0.0} | self.costs
        step_s = cost["step_s"] + cost["stream_s"] * streams
        return tokens * cost["token_s"] + (body["max_tokens"] - 1) * step_s

    async def _late(self, page: str) -> None:
        if os.environ.get("FAKE_VLLM") == "answers-late" and page not in self.pages:
            self.pages.add(page)
            await asyncio.sleep(LATE_S)

    def _stall_s(self, body: dict[str, object]) -> float:
        if os.environ.get("FAKE_VLLM") != "stalls-once":
            return 0.0
        self.short += sum(map(len, body["prompt"])) == STALLING_TOKENS
        return STALL_S if self.short == STALLING else 0.0

    @web.middleware
    async def guard(self, request: web.Request, handler: Any) -> web.StreamResponse:
        key = os.environ.get("TANDEM_ENGINE_KEY")
        guarded = key and request.path.startswith("/v1")
        if guarded and request.headers.get("Authorization") != f"Bearer {key}":
            return web.json_response({"error": "Unauthorized"}, status=401)
        return await handler(request)

    async def fake(self, request: web.Request) -> web.Response:
        change = await request.json()
        if "exit" in change:
            sys.stdout.write(TRACEBACK + "\n")
            sys.stdout.flush()
            os._exit(change["exit"])
        self.health_status = change.pop("health", self.health_status)
        if change.pop("hung", not self.works.is_set()):
            self.works.clear()
        else:
            self.works.set()
        self.state |= change
        return web.json_response({"requests": self.requests, "environment": dict(os.environ)})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    parser.add_argument("--host")
    parser.add_argument("--served-model-name")
    options, _ = parser.parse_known_args()
    if os.environ.get("FAKE_VLLM") == "dies-at-start":
        sys.stderr.write(TRACEBACK + "\n")
        sys.exit(1)
    fake = Fake(options.served_model_name)
    app = web.Application(middlewares=[fake.guard])
    app.add_routes(
        [
            web.get("/health", fake.health),
            web.get("/metrics", fake.metrics),
            web.get("/v1/models", fake.models),
            web.get("/version", fake.version),
            web.post("/v1/completions", fake.completions),
            web.post("/fake", fake.fake),
        ]
    )
    web.run_app(app, host=options.host, port=options.port, print=None, access_log=None)


if __name__ == "__main__":
    main()
