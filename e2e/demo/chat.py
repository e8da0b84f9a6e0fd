"""One chat answer, streamed to the terminal as it comes."""

import json

import aiohttp
from rich.console import Console

from benchmarks.load.client import stream_lines

QUESTION = "Why do prefill and decode want to be scaled apart?"
LIMIT_S = 60.0


async def stream_chat(*, url: str, model: str, console: Console, max_tokens: int = 48) -> str:
    """Ask one question, print the answer token by token, and return it."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": QUESTION}],
        "max_tokens": max_tokens,
        "temperature": 0,
        "stream": True,
    }
    timeout = aiohttp.ClientTimeout(total=LIMIT_S)
    pieces: list[str] = []
    async with (
        aiohttp.ClientSession(timeout=timeout, raise_for_status=True) as session,
        session.post(f"{url}/v1/chat/completions", json=body) as response,
    ):
        async for payload in stream_lines(response):
            if payload == b"[DONE]":
                break
            for choice in json.loads(payload).get("choices", ()):
                text = choice["delta"].get("content") or ""
                pieces.append(text)
                console.print(text, end="", markup=False, highlight=False)
    console.print()
    return "".join(pieces)
