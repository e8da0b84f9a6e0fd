"""The router's Prometheus metrics, with the same buckets for every pool, so that sums are valid."""

from collections.abc import Callable, Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector
from prometheus_client.exposition import generate_latest

from tandem_contracts.names import TPOT_METRIC, TTFT_METRIC
from tandem_engine.router.accounting.tallies import Times, Total
from tandem_engine.router.pods.fleet import EnginePods
from tandem_engine.router.pods.health import Why
from tandem_engine.router.pods.kv_lease import Lost
from tandem_engine.router.pods.pod import Pod, Role
from tandem_routing.history import BUCKET_EDGES_TOKENS, prompt_bucket
from tandem_routing.verdict import Cause, Outcome, Verdict

_BUCKET_RATIO = 1.15
_SMALLEST_S = 0.001
_LARGEST_S = 600.0


def log_spaced_buckets() -> tuple[float, ...]:
    """Return bucket edges from 1 ms to beyond ten minutes, each 1.15 times the one before."""
    edges = [_SMALLEST_S]
    while edges[-1] < _LARGEST_S:
        edges.append(edges[-1] * _BUCKET_RATIO)
    return tuple(round(edge, 6) for edge in edges)


_EVERYWHERE = tuple(cause for cause in Cause if cause is not Cause.WAKE)


class RouterMetrics:
    """The content of `/metrics`. Gauges are read from the router at each scrape."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        registry, buckets = self.registry, log_spaced_buckets()
        ProcessCollector(registry=registry)
        self.requests = Total(
            "tandem_router_requests",
            "Requests that ended, by outcome.",
            ["outcome"],
            registry=registry,
        )
        self.slo_requests = Total(
            "tandem_router_slo_requests",
            "Requests judged at the bounds in force when they ended.",
            ["result", "prompt_bucket"],
            registry=registry,
        )
        self.ttft = Times(
            TTFT_METRIC,
            "From whole request to first token sent.",
            buckets=buckets,
            registry=registry,
        )
        self.tpot = Times(
            TPOT_METRIC,
            "Time per output token after the first.",
            buckets=buckets,
            registry=registry,
        )
        self.ttft_part = Times(
            "tandem_router_ttft_part_seconds",
            "Parts of TTFT; they sum to it.",
            ["part"],
            buckets=buckets,
            registry=registry,
        )
        self.blame = Counter(
            "tandem_router_blame", "Violations, by their one cause.", ["cause"], registry=registry
        )
        self.prompt_tokens = Total(
            "tandem_router_prompt_tokens",
            "Prompt tokens of requests that ended.",
            registry=registry,
        )
        self.cached_tokens = Total(
            "tandem_router_cached_tokens",
            "Prompt tokens that a prefix cache served, where the engine says so.",
            registry=registry,
        )
        self.foreseen_tokens = Total(
            "tandem_router_foreseen_cached_tokens",
            "Prompt tokens that prefill pods should have cached, by what they were sent before.",
            registry=registry,
        )
        self.output_tokens = Total(
            "tandem_router_output_tokens", "Tokens generated.", registry=registry
        )
        self.class_requests = Total(
            "tandem_router_class_requests",
            "Requests of a class that ended, by outcome at the bounds of the class.",
            ["slo_class", "outcome"],
            registry=registry,
        )
        self.class_output_tokens = Total(
            "tandem_router_class_output_tokens",
            "Tokens generated for requests of a class, by result.",
            ["slo_class", "result"],
            registry=registry,
        )
        self.tenant_tokens = Total(
            "tandem_router_tenant_tokens",
            "Tokens of requests of a tenant that ended, by kind.",
            ["tenant", "kind"],
            registry=registry,
        )
        self.tenant_refused = Counter(
            "tandem_router_tenant_refused",
            "Requests refused because their tenant reached a limit, by limit.",
            ["tenant", "limit"],
            registry=registry,
        )
        self.retries = Counter(
            "tandem_router_retries", "Second tries, by reason.", ["reason"], registry=registry
        )
        self.decode_only = Total(
            "tandem_router_decode_only",
            "Requests sent to a decode pod alone, by reason.",
            ["reason"],
            registry=registry,
        )
        self.ejections = Counter(
            "tandem_router_ejections",
            "Engine pods ejected because of failed or slow requests, by role and reason.",
            ["role", "reason"],
            registry=registry,
        )
        self.killers = Counter(
            "tandem_router_engine_killers",
            "Requests refused because engines ended while they served the same body.",
            registry=registry,
        )
        self.kv_expired = Counter(
            "tandem_router_kv_expired",
            "Requests served again because no first token came within their KV lease.",
            ["how"],
            registry=registry,
        )
        self.kv_given_back = Counter(
            "tandem_router_kv_given_back",
            "Prompts whose KV blocks were released because no decode pod would pull them.",
            registry=registry,
        )
        self.arrivals = Total(
            "tandem_router_arrivals", "Valid requests that arrived.", registry=registry
        )
        self.tokenizer_requests = Counter(
            "tandem_router_tokenizer_requests",
            "Requests that name or count tokens and generate none, by endpoint and outcome.",
            ["endpoint", "outcome"],
            registry=registry,
        )
        self._spans = Counter(
            "tandem_router_trace_spans",
            "Spans that the collector took, or did not take.",
            ["result"],
            registry=registry,
        )
        self._queued = Gauge(
            "tandem_router_queued_requests", "Requests that wait in the router.", registry=registry
        )
        self._held = Gauge(
            "tandem_router_held_requests",
            "Queued requests that wait until decode pods can serve more streams within TPOT.",
            registry=registry,
        )
        self._in_flight = Gauge(
            "tandem_router_in_flight_requests",
            "Requests at engine pods, by phase.",
            ["phase"],
            registry=registry,
        )
        self._pods = Gauge(
            "tandem_router_pods",
            "Engine pods, by role and state.",
            ["role", "state"],
            registry=registry,
        )
        self._marks = Gauge(
            "tandem_router_prefix_marks",
            "Stretches of prompts that the router takes prefill pods to have cached.",
            registry=registry,
        )
        self._busy = Gauge(
            "tandem_router_busy_share",
            "Share of one core that the process used in the last half minute.",
            registry=registry,
        )
        self._generation = Gauge(
            "tandem_router_settings_generation",
            "Generation of the settings in force.",
            registry=registry,
        )
        # Only a pool that may go to zero has series of a wake.
        for cause in _EVERYWHERE:
            self.blame.labels(cause.value)
        for how in Lost:
            self.kv_expired.labels(how.value)
        # To look a child up takes longer than to count with it.
        self._judged: dict[tuple[str, int], Total] = {}
        self._ended = {outcome: self.requests.labels(outcome.value) for outcome in Outcome}
        self.parts: dict[Cause, Times] = {
            cause: self.ttft_part.labels(cause.value)
            for cause in _EVERYWHERE
            if cause not in (Cause.DECODE_STEP, Cause.ERROR)
        }

    def watch(
        self,
        *,
        fleet: EnginePods,
        queued: Callable[[], int],
        held: Callable[[], int],
        generation: Callable[[], int],
        marks: Callable[[], int],
        busy_share: Callable[[], float],
    ) -> None:
        """Connect the gauges to the state of the router."""
        self._queued.set_function(queued)
        self._held.set_function(held)
        self._generation.set_function(generation)
        self._marks.set_function(marks)
        self._busy.set_function(busy_share)
        for role in Role:

            def requests(role: Role = role) -> int:
                return sum(p.requests for p in fleet.pods() if p.endpoint.role is role)

            def ready(role: Role = role) -> int:
                return len(fleet.usable(role))

            def ejected(role: Role = role) -> int:
                return sum(sick.pod.endpoint.role is role for sick in fleet.ejection.sick())

            def leaving(role: Role = role) -> int:
                return sum(p.endpoint.leaving for p in fleet.pods() if p.endpoint.role is role)

            self._in_flight.labels(role.value).set_function(requests)
            self._pods.labels(role.value, "ready").set_function(ready)
            self._pods.labels(role.value, "leaving").set_function(leaving)
            self._pods.labels(role.value, "ejected").set_function(ejected)
            for why in Why:
                self.ejections.labels(role.value, why.value)
        fleet.ejection.ejected = self._ejected

    def finish(
        self,
        verdict: Verdict,
        cause: Cause | None,
        *,
        prompt_tokens: int,
        cached_tokens: int,
        output_tokens: int,
        guaranteed: bool = True,
    ) -> None:
        """Count a request that ended; series about the SLO leave best effort out."""
        outcome = verdict.outcome
        self._ended[outcome].inc()
        if outcome is Outcome.REFUSED:
            return
        self.prompt_tokens.inc(prompt_tokens)
        self.cached_tokens.inc(cached_tokens)
        self.output_tokens.inc(output_tokens)
        if outcome is Outcome.GONE or not guaranteed:
            return
        result = "good" if outcome is Outcome.GOOD else "violated"
        key = result, prompt_bucket(prompt_tokens)
        judged = self._judged.get(key)
        if judged is None:
            judged = self._judged[key] = self.slo_requests.labels(result, _bucket_label(key[1]))
        judged.inc()
        if cause is not None:
            self.blame.labels(cause.value).inc()
        if verdict.ttft_s is not None:
            self.ttft.observe(verdict.ttft_s)
            self.observe_parts(verdict.parts)
        if verdict.tpot_s is not None:
            self.tpot.observe(verdict.tpot_s)

    def finish_class(self, name: str, verdict: Verdict, *, output_tokens: int) -> None:
        """Count a request of a class that ended."""
        self.class_requests.labels(name, verdict.outcome.value).inc()
        result = "good" if verdict.outcome is Outcome.GOOD else "violated"
        self.class_output_tokens.labels(name, result).inc(output_tokens)

    def _ejected(self, pod: Pod, why: Why) -> None:
        self.ejections.labels(pod.endpoint.role.value, why.value).inc()

    def spans(self, result: str, count: int) -> None:
        """Count spans that were `sent` or `lost`; any thread can call it."""
        self._spans.labels(result).inc(count)

    def exposition(self, names: Sequence[str] = ()) -> bytes:
        """Return the text of a scrape: all series, or only those with these names."""
        if not names:
            return generate_latest(self.registry)
        return generate_latest(self.registry.restricted_registry(names))

    def observe_parts(self, parts: Mapping[Cause, float]) -> None:
        """Count the parts of one TTFT."""
        for cause, value in parts.items():
            if cause not in self.parts:
                self.parts[cause] = self.ttft_part.labels(cause.value)
            self.parts[cause].observe(value)


def _bucket_label(bucket: int) -> str:
    return str(BUCKET_EDGES_TOKENS[bucket]) if bucket < len(BUCKET_EDGES_TOKENS) else "+Inf"
