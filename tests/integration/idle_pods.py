"""Answers of an idle router and of idle engines, on an address that the test gives to pods."""

import contextlib
import json
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


class IdlePods:
    """A router that has seen no request since long, and engines that hold none."""

    def __init__(self):
        self.started_s = time.time() - 7200
        self.arrivals = []
        self.finished = []

    def answer(self, port, path):
        if port == ENGINE_PORT:
            return ENGINE_PAGE
        if path == "/metrics":
            return ROUTER_PAGE
        in_system = dict.fromkeys(
            ("queued_requests", "queued_prompt_tokens", "prefill_requests", "decode_requests"), 0
        )
        return json.dumps(
            {
                "schema": 1,
                "router": "tiny-router-idle",
                "started_s": self.started_s,
                "now_s": time.time(),
                "bucket_edges_tokens": [128, 512, 2048, 8192, 32768],
                "arrivals": self.arrivals,
                "finished": self.finished,
                "in_system": in_system,
                "legs": [],
            }
        )


@contextlib.contextmanager
def idle_pods(host):
    """Serve on `host`, the address that the test's pods will carry."""
    pods = IdlePods()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = pods.answer(self.server.server_port, self.path).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with contextlib.ExitStack() as stack:
        for port in (ENGINE_PORT, ROUTER_PORT):
            server = stack.enter_context(ThreadingHTTPServer((host, port), Handler))
            threading.Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.shutdown)
        yield pods
