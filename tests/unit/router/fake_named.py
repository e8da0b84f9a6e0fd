"""The events of a scripted engine on the endpoints whose events have names, in vLLM's shapes."""

import json
from typing import Any

RESPONSES, MESSAGES = "/v1/responses", "/v1/messages"
PATHS = (RESPONSES, MESSAGES)


def usage_of(path: str, *, prompt: int, output: int, cached: int | None) -> dict[str, Any]:
    if path == RESPONSES:
        return {
            "input_tokens": prompt,
            "output_tokens": output,
            "input_tokens_details": {"cached_tokens": cached or 0},
        }
    return {
        "input_tokens": prompt - (cached or 0),
        "output_tokens": output,
        "cache_read_input_tokens": cached or 0,
    }


def prefill_answer(path: str, usage: dict[str, Any]) -> dict[str, Any]:
    if path == RESPONSES:
        return {"id": "resp_1", "object": "response", "status": "incomplete", "usage": usage}
    return {"id": "msg_1", "type": "message", "stop_reason": "max_tokens", "usage": usage}


def head(path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    if path == RESPONSES:
        response = {"id": "resp_1", "model": body["model"], "status": "in_progress", "output": []}
        return [
            {"response": response, "sequence_number": 0, "type": "response.created"},
            {"response": response, "sequence_number": 1, "type": "response.in_progress"},
        ]
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "content": [],
        "model": body["model"],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }
    return [{"type": "message_start", "message": message}]


def delta(path: str, text: str, *, first: bool) -> list[dict[str, Any]]:
    if path == RESPONSES:
        return [{"delta": text, "item_id": "m1", "type": "response.output_text.delta"}]
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}}
    part = {"type": "text_delta", "text": text}
    found = {"type": "content_block_delta", "index": 0, "delta": part}
    return [block, found] if first else [found]


def tail(
    path: str, body: dict[str, Any], text: str, usage: dict[str, Any], *, stop_reason: str | None
) -> list[dict[str, Any]]:
    if path == RESPONSES:
        response = {
            "id": "resp_1",
            "model": body["model"],
            "status": "cancelled" if stop_reason is None else "completed",
            "output": [{"content": [{"type": "output_text", "text": text}], "type": "message"}],
            "usage": usage,
        }
        return [{"response": response, "type": "response.completed"}]
    return [
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": stop_reason, "stop_sequence": None},
            "usage": usage,
        },
        {"type": "message_stop"},
    ]


def frames(events: list[dict[str, Any]]) -> bytes:
    return b"".join(
        b"event: %b\ndata: %b\n\n" % (event["type"].encode(), json.dumps(event).encode())
        for event in events
    )
