"""Sends spans to a collector, counts lost ones, and logs the cause once a minute.

It is loaded only with tracing, because it needs the packages of OpenTelemetry.
"""

import io
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

EXPORT_TIMEOUT_S = 5.0
LARGEST_ANSWER_BYTES = 8192
"""Most bytes that are read of a collector's answer: a broken collector could fill the memory."""
TOLD_EVERY_S = 60.0
# It logs each failure, and the collector's own words with it.
_TALKATIVE = "opentelemetry.exporter.otlp.proto.http.trace_exporter"

Count = Callable[[str, int], None]
"""Receives the result of spans, `sent` or `lost`, and their number."""

logger = logging.getLogger(__name__)


class CountingExporter(SpanExporter):
    """OTLP over HTTP, called by the SDK's export thread."""

    def __init__(
        self, endpoint: str, *, count: Count, clock: Callable[[], float] = time.monotonic
    ) -> None:
        logging.getLogger(_TALKATIVE).setLevel(logging.CRITICAL)
        self._endpoint = endpoint
        self._count = count
        self._clock = clock
        self._session = BoundedSession()
        self._exporter = OTLPSpanExporter(
            endpoint=f"{endpoint.rstrip('/')}/v1/traces",
            timeout=EXPORT_TIMEOUT_S,
            session=self._session,
        )
        self._untold = 0
        self._told_s: float | None = None

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send a batch; if the collector does not take it, it is lost."""
        self._session.fault = None
        result = self._exporter.export(spans)
        fault = self._session.fault
        if result is SpanExportResult.SUCCESS and fault is None:
            self._count("sent", len(spans))
            return result
        self._count("lost", len(spans))
        self._tell(len(spans), fault or "not sent")
        return SpanExportResult.FAILURE

    def shutdown(self) -> None:
        """Stop sending."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Do nothing: the exporter keeps no spans."""
        return True

    def _tell(self, lost: int, why: str) -> None:
        self._untold += lost
        now_s = self._clock()
        if self._told_s is not None and now_s - self._told_s < TOLD_EVERY_S:
            return
        told = {"endpoint": self._endpoint, "spans": self._untold, "why": why}
        logger.warning("traces lost", extra=told)
        self._told_s, self._untold = now_s, 0


class BoundedSession(requests.Session):
    """HTTP without redirects that reads little of an answer.

    Attributes:
        fault: why the last request failed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.trust_env = False
        self.fault: str | None = None

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """Send the request, and record its result."""
        options |= {"stream": True, "allow_redirects": False}
        try:
            response = super().send(request, **options)
        except requests.RequestException as error:
            self.fault = type(error).__name__
            raise
        whole = response.raw
        response.raw = io.BytesIO(whole.read(LARGEST_ANSWER_BYTES))
        whole.close()
        self.fault = None if 200 <= response.status_code <= 299 else f"HTTP {response.status_code}"
        return response
