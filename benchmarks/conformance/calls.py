"""The calls that both servers get: through the official clients, and bare over HTTP."""

from dataclasses import dataclass, field
from typing import Any

MODEL = "tiny"
_SEEDED = {"model": MODEL, "temperature": 0, "seed": 7}
_PROMPT = "The operator of a pool looks at its fleets"
_SAID = [{"role": "user", "content": "Say something about fleets."}]
_TALK = [
    {"role": "system", "content": "Answer in few words."},
    {"role": "user", "content": "What is a pool?"},
    {"role": "assistant", "content": "Two fleets."},
    {"role": "user", "content": [{"type": "text", "text": "And a router?"}]},
]
_SCHEMA = {
    "type": "object",
    "properties": {"unit": {"type": "string", "enum": ["celsius"]}},
    "required": ["unit"],
    "additionalProperties": False,
}
_TOOL = {
    "type": "function",
    "function": {"name": "weather", "description": "The weather now.", "parameters": _SCHEMA},
}


@dataclass(frozen=True, slots=True)
class Call:
    """One call: of a client's method, or of a path.

    Attributes:
        client: `openai`, `anthropic` or `http`.
        method: the client's method, such as `chat.completions.create`, or `POST /v1/models`.
        arguments: the method's, or the body.
    """

    name: str
    client: str
    method: str
    arguments: Any = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)


def _completion(name: str, **more: Any) -> Call:
    arguments = {**_SEEDED, "prompt": _PROMPT, "max_tokens": 12, **more}
    return Call(f"completions/{name}", "openai", "completions.create", arguments)


def _chat(name: str, **more: Any) -> Call:
    arguments = {**_SEEDED, "messages": _SAID, "max_tokens": 12, **more}
    return Call(f"chat/{name}", "openai", "chat.completions.create", arguments)


def _response(name: str, **more: Any) -> Call:
    asked = {"model": MODEL, "temperature": 0, "input": _PROMPT, "max_output_tokens": 12}
    return Call(f"responses/{name}", "openai", "responses.create", {**asked, **more})


def _message(name: str, **more: Any) -> Call:
    asked = {"model": MODEL, "messages": _SAID, "max_tokens": 12, "extra_body": {"temperature": 0}}
    return Call(f"messages/{name}", "anthropic", "messages.create", {**asked, **more})


def _count(name: str, **more: Any) -> Call:
    asked = {"model": MODEL, "messages": _SAID, **more}
    return Call(f"messages/count-{name}", "anthropic", "messages.count_tokens", asked)


def _http(name: str, method: str, body: Any = None, **headers: str) -> Call:
    return Call(f"http/{name}", "http", method, body, headers)


_WITH_USAGE = {"stream": True, "stream_options": {"include_usage": True}}
_TOO_LONG = [500] * 2100

COMPLETIONS = [
    _completion("plain"),
    _completion("stream", stream=True),
    _completion("stream-usage", **_WITH_USAGE),
    _completion(
        "stream-continuous",
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
    ),
    _completion("logprobs", logprobs=2),
    _completion("logprobs-stream", logprobs=2, stream=True),
    _completion("echo", echo=True),
    _completion("echo-logprobs", echo=True, logprobs=1),
    _completion("n", n=2),
    _completion("n-stream", n=2, **_WITH_USAGE),
    _completion("two-prompts", prompt=[_PROMPT, "Another one"]),
    _completion("token-ids-in", prompt=[400, 500, 600, 700]),
    _completion("token-ids-out", extra_body={"return_token_ids": True}),
    _completion("stop", stop=["e", "a"]),
    _completion("stop-stream", stop=["e", "a"], stream=True),
    _completion("user", user="somebody"),
    _completion("unknown-model", model="nobody"),
    _completion("too-long", prompt=_TOO_LONG),
    _completion("too-long-text", prompt="word " * 6000),
    _completion("too-long-stream", prompt=_TOO_LONG, stream=True),
    _completion("wrong-type", temperature="hot"),
    _completion("wrong-range", temperature=-1),
    _completion("wrong-n", n=0),
    _completion("unknown-field", extra_body={"no_such_field": 1}),
]

CHAT = [
    _chat("plain"),
    _chat("talk", messages=_TALK),
    _chat("stream", stream=True),
    _chat("stream-usage", **_WITH_USAGE),
    _chat("max-completion-tokens", max_tokens=None, max_completion_tokens=5),
    _chat("logprobs", logprobs=True, top_logprobs=2),
    _chat("logprobs-stream", logprobs=True, top_logprobs=2, stream=True),
    _chat("n", n=2),
    _chat("n-stream", n=2, stream=True),
    _chat("stop", stop="e"),
    _chat("tools", tools=[_TOOL]),
    _chat("tools-stream", tools=[_TOOL], stream=True),
    _chat(
        "tool-forced",
        tools=[_TOOL],
        tool_choice={"type": "function", "function": {"name": "weather"}},
        max_tokens=60,
    ),
    _chat(
        "tool-forced-stream",
        tools=[_TOOL],
        tool_choice={"type": "function", "function": {"name": "weather"}},
        max_tokens=60,
        stream=True,
    ),
    _chat("tool-required", tools=[_TOOL], tool_choice="required", max_tokens=60),
    _chat(
        "schema",
        response_format={"type": "json_schema", "json_schema": {"name": "u", "schema": _SCHEMA}},
        max_tokens=60,
    ),
    _chat("token-ids-out", extra_body={"return_token_ids": True}),
    _chat("unknown-model", model="nobody"),
    _chat("no-messages", messages=[]),
    _chat("wrong-role", messages=[{"role": "stranger", "content": "hello"}]),
    _chat("too-long", messages=[{"role": "user", "content": "word " * 6000}]),
    _chat("wrong-type", top_p="all"),
    _chat("wrong-top-logprobs", top_logprobs=2),
    _chat("unknown-field", extra_body={"no_such_field": 1}),
]

_RESPONSE_TOOL = {"type": "function", "name": "weather", "parameters": _SCHEMA, "strict": False}
_MESSAGE_TOOL = {"name": "weather", "description": "The weather now.", "input_schema": _SCHEMA}
_ANSWERED_CALL = [
    {"role": "user", "content": "The weather?"},
    {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "rain"},
]

RESPONSES = [
    _response("plain"),
    _response("stream", stream=True),
    _response("items", input=_TALK[:1] + _TALK[1:2], instructions="Be short."),
    _response("seeded", extra_body={"seed": 7, "ignore_eos": True}),
    _response("no-store", store=False),
    _response("metadata", metadata={"who": "me"}, user="somebody"),
    _response("logprobs", include=["message.output_text.logprobs"], top_logprobs=2),
    _response(
        "logprobs-stream", include=["message.output_text.logprobs"], top_logprobs=2, stream=True
    ),
    _response("tools", tools=[_RESPONSE_TOOL]),
    _response("tools-stream", tools=[_RESPONSE_TOOL], stream=True),
    _response(
        "tool-forced",
        tools=[_RESPONSE_TOOL],
        tool_choice={"type": "function", "name": "weather"},
        max_output_tokens=60,
    ),
    _response(
        "tool-forced-stream",
        tools=[_RESPONSE_TOOL],
        tool_choice={"type": "function", "name": "weather"},
        max_output_tokens=60,
        stream=True,
    ),
    _response("tool-answered", input=_ANSWERED_CALL, tools=[_RESPONSE_TOOL]),
    _response(
        "schema",
        text={"format": {"type": "json_schema", "name": "u", "schema": _SCHEMA}},
        max_output_tokens=60,
    ),
    _response("unknown-model", model="nobody"),
    _response("too-long", input="word " * 6000),
    _response("wrong-type", temperature="hot"),
    _response("no-input", input=[]),
    _response("background", background=True),
    _response("previous", previous_response_id="resp_1"),
    _response("web-search", tools=[{"type": "web_search"}]),
    _response("unknown-field", extra_body={"no_such_field": 1}),
    Call("responses/stored", "openai", "responses.retrieve", {"response_id": "resp_1"}),
]

MESSAGES = [
    _message("plain"),
    _message("stream", stream=True),
    _message("system", system="Be short.", messages=_TALK[1:]),
    _message("system-blocks", system=[{"type": "text", "text": "Be short."}]),
    _message("cache-control", metadata={"user_id": "me"}),
    _message("stop", stop_sequences=["e", "a"]),
    _message("stop-stream", stop_sequences=["e", "a"], stream=True),
    _message("tools", tools=[_MESSAGE_TOOL]),
    _message(
        "tool-forced",
        tools=[_MESSAGE_TOOL],
        tool_choice={"type": "tool", "name": "weather"},
        max_tokens=60,
    ),
    _message(
        "tool-forced-stream",
        tools=[_MESSAGE_TOOL],
        tool_choice={"type": "tool", "name": "weather"},
        max_tokens=60,
        stream=True,
    ),
    _message("tool-any", tools=[_MESSAGE_TOOL], tool_choice={"type": "any"}, max_tokens=60),
    _message("unknown-model", model="nobody"),
    _message("too-long", messages=[{"role": "user", "content": "word " * 6000}]),
    _message("wrong-type", max_tokens="many"),
    _message("no-tokens", max_tokens=0),
    _message("no-messages", messages=[]),
    _message("unknown-field", extra_body={"no_such_field": 1}),
    _count("plain"),
    _count("tools", tools=[_MESSAGE_TOOL], system="Be short."),
    _count("unknown-model", model="nobody"),
]

OTHER = [
    Call("embeddings", "openai", "embeddings.create", {"model": MODEL, "input": _PROMPT}),
    Call("models/list", "openai", "models.list"),
    Call("models/one", "openai", "models.retrieve", {"model": MODEL}),
    Call("models/unknown", "openai", "models.retrieve", {"model": "nobody"}),
]

_BODY = {**_SEEDED, "prompt": _PROMPT, "max_tokens": 2}
_HELLO = {**_SEEDED, "messages": _SAID, "max_tokens": 2}

HTTP = [
    _http("slash", "POST /v1/completions/", _BODY),
    _http("slash-chat", "POST /v1/chat/completions/?a=b", _HELLO),
    _http("slash-models", "GET /v1/models/"),
    _http("slash-wrong-method", "GET /v1/completions/"),
    _http("unknown-path", "POST /v1/nowhere", _BODY),
    _http("unknown-slash", "POST /v1/nowhere/", _BODY),
    _http("wrong-method", "GET /v1/completions"),
    _http("wrong-method-models", "POST /v1/models", {}),
    _http("no-json", "POST /v1/completions", b"{nonsense"),
    _http("no-object", "POST /v1/completions", [1, 2]),
    _http("empty", "POST /v1/chat/completions", b""),
    _http("no-content-type", "POST /v1/completions", b'{"model": "tiny"}', **{"Content-Type": ""}),
    _http("no-model", "POST /v1/completions", {"prompt": _PROMPT, "max_tokens": 2}),
    _http("own-id", "POST /v1/completions", _BODY, **{"X-Request-Id": "mine-1"}),
    _http("from-a-browser", "POST /v1/completions", _BODY, Origin="http://page.example"),
    _http("preflight", "OPTIONS /v1/completions", b"", Origin="http://page.example"),
    _http("health", "GET /health"),
    _http("tokenize", "POST /tokenize", {"model": MODEL, "prompt": _PROMPT}),
    _http("tokenize-strings", "POST /tokenize", {"prompt": _PROMPT, "return_token_strs": True}),
    _http("tokenize-chat", "POST /tokenize", {"model": MODEL, "messages": _TALK}),
    _http("tokenize-unknown-model", "POST /tokenize", {"model": "nobody", "prompt": _PROMPT}),
    _http("tokenize-nothing", "POST /tokenize", {"model": MODEL}),
    _http("tokenize-slash", "POST /tokenize/", {"model": MODEL, "prompt": _PROMPT}),
    _http("tokenize-get", "GET /tokenize"),
    _http("detokenize", "POST /detokenize", {"model": MODEL, "tokens": [300, 301, 302]}),
    _http("detokenize-wrong", "POST /detokenize", {"model": MODEL, "tokens": ["a"]}),
    _http("responses-slash", "POST /v1/responses/", {"model": MODEL, "input": "a"}),
    _http("messages-get", "GET /v1/messages"),
    _http("messages-no-json", "POST /v1/messages", b"{nonsense"),
    _http("done", "POST /v1/completions", {**_BODY, "stream": True}),
]

CALLS = [*COMPLETIONS, *CHAT, *RESPONSES, *MESSAGES, *OTHER, *HTTP]
