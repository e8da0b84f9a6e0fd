"""Spans of OpenTelemetry: one for each sampled request, and below it one for each phase.

Without tracing, they cost one comparison per request, and no package of OpenTelemetry is loaded.
Names follow its semantic conventions for `gen_ai`. A span holds ids, times and counts, never
content.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tandem_contracts.router_settings import RouterSettings, TracingSettings
from tandem_routing.verdict import Outcome, Timeline, Verdict

if TYPE_CHECKING:
    from opentelemetry.trace import Span

LAST_SEND_S = 5.0
# They log what clients sent.
_TALKATIVE = ("opentelemetry.trace.span", "opentelemetry.trace.propagation.tracecontext")
_CHARGED = {Outcome.FAILED, Outcome.SHED, Outcome.TOO_LATE}

logger = logging.getLogger(__name__)


class RequestTrace:
    """The span of one request from its arrival on.

    Attributes:
        headers: headers for engines, so that their spans are below this one.
    """

    def __init__(self, spans: "_Spans", span: "Span", *, began_s: float) -> None:
        self._spans = spans
        self._span = span
        self._began_ns = _ns(began_s)
        self.headers = spans.headers_of(span)

    def end(self, verdict: Verdict, timeline: Timeline, told: Mapping[str, Any]) -> None:
        """End the span with the results of the request; `told` is its log line."""
        span = self._span
        if span.is_recording():
            span.set_attributes(_attributes(told))
            if verdict.outcome in _CHARGED:
                self._spans.fail(span, verdict.outcome.value)
            at_s = 0.0
            for part, seconds in verdict.parts.items():
                if seconds > 0.0:
                    self._part(part.value, from_s=at_s, to_s=at_s + seconds)
                    at_s += seconds
            first_s, last_s = timeline.first_token_s, timeline.last_token_s
            if first_s is not None and last_s is not None:
                arrived_s = timeline.received_s
                self._part("decode", from_s=first_s - arrived_s, to_s=last_s - arrived_s)
        span.end(self._after(told["duration_s"]))

    def _part(self, name: str, *, from_s: float, to_s: float) -> None:
        begin_ns, end_ns = self._after(from_s), self._after(to_s)
        self._spans.part(self._span, name, begin_ns=begin_ns, end_ns=end_ns)

    def _after(self, seconds: float) -> int:
        # A float of the epoch steps by a quarter of a microsecond: a part could outlast the whole.
        return self._began_ns + _ns(seconds)


class Traces:
    """Begins spans if the settings in force ask for them.

    Args:
        count: receives `sent` or `lost` and a number of spans; called from another thread.
    """

    def __init__(self, *, router: str, count: Callable[[str, int], None]) -> None:
        self._router = router
        self._count = count
        self._wanted: TracingSettings | None = None
        self._spans: _Spans | None = None
        # Packages take some tenths of a second to load, and what is left some seconds to send.
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="traces")

    def begin(
        self,
        settings: RouterSettings,
        headers: Mapping[str, str],
        *,
        operation: str,
        began_s: float,
    ) -> RequestTrace | None:
        """Begin the span of a request; `None`: no span, or not yet.

        Args:
            settings: the settings in force, with or without tracing.
            headers: the client's, which may name the parent span.
            operation: the value of `gen_ai.operation.name`.
            began_s: its arrival, in epoch seconds.
        """
        if settings.tracing != self._wanted:
            self._wanted = settings.tracing
            before, self._spans = self._spans, None
            asyncio.get_running_loop().run_in_executor(
                self._worker, self._change, before, settings.pool, settings.tracing
            )
        spans = self._spans
        if spans is None:
            return None
        span = spans.begin(operation, settings.models[0], headers, began_s=began_s)
        return RequestTrace(spans, span, began_s=began_s)

    async def close(self) -> None:
        """Send the remaining spans, within some seconds."""
        spans, self._spans = self._spans, None
        self._worker.shutdown(wait=False, cancel_futures=True)
        if spans is not None:
            # A process waits for no such thread at its end.
            sending = threading.Thread(target=spans.close, daemon=True)
            sending.start()
            await asyncio.to_thread(sending.join, LAST_SEND_S)

    def _change(self, before: "_Spans | None", pool: str, wanted: TracingSettings | None) -> None:
        # Of two edits at once, the first may have ended only now.
        late, self._spans = self._spans, None
        for each in (before, late):
            if each is not None:
                each.close()
        if wanted is None:
            return
        try:
            self._spans = _Spans(wanted, pool=pool, router=self._router, count=self._count)
        except Exception as error:
            logger.warning("no traces", extra={"why": f"{type(error).__name__}: {error}"})
        else:
            logger.info("traces", extra={"endpoint": wanted.endpoint})


class _Spans:
    """The packages of OpenTelemetry, loaded and set up."""

    def __init__(
        self,
        wanted: TracingSettings,
        *,
        pool: str,
        router: str,
        count: Callable[[str, int], None],
    ) -> None:
        from opentelemetry import trace  # noqa: PLC0415 - only where traces are asked for
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
        from opentelemetry.sdk.trace.sampling import (  # noqa: PLC0415
            ParentBased,
            TraceIdRatioBased,
        )
        from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415
            TraceContextTextMapPropagator,
        )

        from tandem_engine.router.accounting.span_export import (  # noqa: PLC0415
            CountingExporter,
        )

        self._trace = trace
        self._context = TraceContextTextMapPropagator()
        about = {"service.name": "tandem-router", "k8s.pod.name": router, "tandem.pool": pool}
        self._provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(wanted.sampling_ratio)),
            resource=Resource.create(about),
            shutdown_on_exit=False,
        )
        for name in _TALKATIVE:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        exporter = CountingExporter(wanted.endpoint, count=count)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("tandem_engine.router")

    def begin(
        self, operation: str, model: str, headers: Mapping[str, str], *, began_s: float
    ) -> "Span":
        about = {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": "vllm",
            "gen_ai.request.model": model,
        }
        return self._tracer.start_span(
            f"{operation} {model}",
            context=self._context.extract(headers),
            kind=self._trace.SpanKind.SERVER,
            attributes=about,
            start_time=_ns(began_s),
        )

    def headers_of(self, span: "Span") -> dict[str, str]:
        headers: dict[str, str] = {}
        self._context.inject(headers, context=self._trace.set_span_in_context(span))
        return headers

    def part(self, above: "Span", name: str, *, begin_ns: int, end_ns: int) -> None:
        context = self._trace.set_span_in_context(above)
        self._tracer.start_span(name, context=context, start_time=begin_ns).end(end_ns)

    def fail(self, span: "Span", outcome: str) -> None:
        span.set_attribute("error.type", outcome)
        span.set_status(self._trace.StatusCode.ERROR)

    def close(self) -> None:
        with suppress(Exception):
            self._provider.shutdown()


# What a request's line has, by the names of OpenTelemetry; the others are Tandem's own.
_NAMES = {
    "prompt_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cached_tokens": "gen_ai.usage.cache_read.input_tokens",
    "request_id": "tandem.request_id",
    "outcome": "tandem.outcome",
    "blame": "tandem.blame",
    "ttft_s": "tandem.ttft_s",
    "tpot_s": "tandem.tpot_s",
    "ttft_bound_s": "tandem.ttft_bound_s",
    "tpot_bound_s": "tandem.tpot_bound_s",
    "decode_only": "tandem.decode_only",
    "prefill_pod": "tandem.prefill_pod",
    "decode_pod": "tandem.decode_pod",
}


def _attributes(told: Mapping[str, Any]) -> dict[str, str | int | float]:
    return {name: told[field] for field, name in _NAMES.items() if told[field] is not None}


def _ns(seconds: float) -> int:
    return round(1e9 * seconds)
