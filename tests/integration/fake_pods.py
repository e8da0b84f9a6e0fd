"""Answers of a router and of engines, on an address of their own that a test gives to pods."""

import contextlib
import errno
import json
import random
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ENGINE_PORT, ROUTER_PORT = 8000, 9100
ENGINE_PAGE = "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n"
ROUTER_PAGE = "".join(
    f'tandem_router_{name}_seconds_bucket{{le="{edge}"}} 0\n'
    for name in ("ttft", "tpot")
    for edge in ("0.1", "+Inf")
)


RATE_RPS, PROMPT_TOKENS, OUTPUT_TOKENS, STEP_S = 12, 1500, 60, 0.02
SERVED_RPS = 8


class FakePods:
    """A router and engines: idle for two hours, and then, from `load` on, short of prefill.

    Under load 12 requests a second arrive, and the one prefill pod is busy all the time with 8.
    """

    def __init__(self):
        self.host = ""
        self.started_s = time.time() - 7200
        self.silent = False
        self.classes: list[dict[str, object]] = []
        self.tenants: list[dict[str, object]] = []
        self._loaded = None
        self._held_since = None
        self._rings = threading.Event()

    def hold(self):
        """Let a request wait in the router, as one does that found the pool at zero."""
        self._held_since = time.time()
        self._rings.set()

    def serve_held(self):
        """Let that request have been answered."""
        self._held_since = None
        self._rings.clear()

    def load(self, *, prefill_pod, decode_pod):
        """Let requests arrive, as if they had for five minutes."""
        self._loaded = (time.time() - 300, prefill_pod, decode_pod)

    def answer(self, port, path):
        """Return the answer of a pod on one of its ports."""
        if port == ENGINE_PORT:
            return self._engine_page()
        if path == "/arrival":
            return "" if self._rings.wait(20) else None
        return ROUTER_PAGE if path == "/metrics" else json.dumps(self._arrivals())

    def _engine_page(self):
        if self._loaded is None:
            return ENGINE_PAGE
        steps = int((time.time() - self._loaded[0]) / STEP_S)
        return (
            "vllm:num_requests_running 8\nvllm:num_requests_waiting 0\n"
            f"vllm:inter_token_latency_seconds_sum {steps * 8 * STEP_S}\n"
            f"vllm:inter_token_latency_seconds_count {steps * 8}\n"
            f"vllm:generation_tokens_total {steps * 8}\n"
            'vllm:cache_config_info{block_size="16",num_gpu_blocks="4000"} 1\n'
            "vllm:kv_cache_usage_perc 0.1\n"
        )

    def _arrivals(self):
        now = time.time()
        in_system = dict.fromkeys(
            ("queued_requests", "queued_prompt_tokens", "prefill_requests", "decode_requests"), 0
        )
        arrivals, finished, legs = [], [], []
        if self._held_since is not None:
            arrivals = [[int(self._held_since), _bucket(1), _bucket(PROMPT_TOKENS), 0]]
            in_system |= {"queued_requests": 1, "queued_prompt_tokens": PROMPT_TOKENS}
        if self._loaded is not None:
            since, prefill_pod, decode_pod = self._loaded
            for second in range(int(since), int(now)):
                arrivals.append([second, _bucket(RATE_RPS), _bucket(RATE_RPS * PROMPT_TOKENS), 0])
                finished.append([second, _finished(SERVED_RPS)])
            served = int((now - since) * SERVED_RPS)
            legs = [
                _leg(prefill_pod, "prefill", now - since, served),
                _leg(decode_pod, "decode", now - since, served),
            ]
        return {
            "schema": 1,
            "router": "tiny-router-fake",
            "started_s": self.started_s,
            "now_s": now,
            "bucket_edges_tokens": [128, 512, 2048, 8192, 32768],
            "arrivals": arrivals,
            "finished": finished,
            "in_system": in_system,
            "classes": self.classes,
            "tenants": self.tenants,
            "legs": legs,
        }


def _bucket(count):
    return [0, 0, count, 0, 0, 0]


def _finished(count):
    zero = dict.fromkeys(("good", "late_tpot", "failed", "shed", "gone"), 0)
    return zero | {
        "finished": count,
        "late_ttft": count,
        "output_tokens": count * OUTPUT_TOKENS,
        "output_tokens_squared": count * OUTPUT_TOKENS**2,
        "blame": {"router_queue": count},
    }


def _leg(pod, role, busy_s, requests):
    return {
        "pod": pod,
        "role": role,
        "busy_s": busy_s,
        "requests": requests,
        "prompt_tokens": requests * PROMPT_TOKENS,
        "cached_tokens": 0,
        "prompt_token_contexts": requests * PROMPT_TOKENS**2 / 2,
        "output_tokens": requests * OUTPUT_TOKENS if role == "decode" else 0,
    }


def servers_on_a_free_host(handler):
    """Bind both ports on an address of loopback where no other run of the tests listens."""
    while True:
        host = f"127.77.{random.randrange(256)}.{random.randrange(1, 255)}"
        with contextlib.ExitStack() as bound:
            try:
                made = [
                    bound.enter_context(ThreadingHTTPServer((host, port), handler))
                    for port in (ENGINE_PORT, ROUTER_PORT)
                ]
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                continue
            bound.pop_all()
            return host, made


@contextlib.contextmanager
def fake_pods():
    """Serve on `host`, the address that the test's pods will carry."""
    pods = FakePods()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            if pods.silent:
                self.send_error(503)
                return
            answer = pods.answer(self.server.server_port, self.path)
            body = (answer or "").encode()
            self.send_response(204 if answer is None else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    pods.host, servers = servers_on_a_free_host(Handler)
    with contextlib.ExitStack() as stack:
        for server in servers:
            stack.enter_context(server)
            threading.Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.shutdown)
        yield pods
