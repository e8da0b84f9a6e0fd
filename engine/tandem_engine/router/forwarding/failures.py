"""The meaning of a failure or a silence: for the pod, and for the request itself."""

import asyncio
import logging
import math
from dataclasses import dataclass, field

from tandem_engine.router.accounting.router_metrics import RouterMetrics
from tandem_engine.router.forwarding.flight import Flight
from tandem_engine.router.forwarding.upstream import FailureReason, Upstream, UpstreamFailure
from tandem_engine.router.openai.errors import ApiError, unavailable
from tandem_engine.router.peers.killers import Killers
from tandem_engine.router.peers.telling import Peers
from tandem_engine.router.pods.fleet import EnginePods
from tandem_engine.router.pods.health import Attempt, Why
from tandem_engine.router.pods.pod import Pod, Role
from tandem_routing.verdict import Ending

_BUSY_RETRY_S = 5
_NO_POD_RETRY_S = 5
# Of what else went wrong the engine itself told.
_MAY_HAVE_ENDED = frozenset(
    {FailureReason.DISCONNECTED, FailureReason.STATUS, FailureReason.ABORTED}
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """Reports failures to the ejection, and finds requests that end engines."""

    fleet: EnginePods
    upstream: Upstream
    killers: Killers
    peers: Peers
    metrics: RouterMetrics
    _noted: set[asyncio.Task[bool]] = field(default_factory=set)

    def refuse_killer(self, flight: Flight) -> None:
        """Raise `ApiError` for a request whose copies have ended engines."""
        try:
            self.killers.check(flight.call, credentials=flight.credentials)
        except ApiError:
            flight.ending = Ending.REFUSED
            self.metrics.killers.inc()
            raise

    def failed(self, attempt: Attempt, failure: UpstreamFailure) -> None:
        """Log that a pod did not serve a request, and count it against the pod."""
        pod = attempt.pod
        logger.warning(
            "engine pod did not serve a request",
            extra={"pod": pod.name, "reason": failure.reason.value, "status": failure.status},
        )
        if failure.reason is FailureReason.REFUSED:
            self.fleet.ejection.eject(pod, Why.REFUSED)
        elif failure.reason is FailureReason.SILENT or (
            failure.reason is FailureReason.BUSY and pod.requests
        ):
            # Known before it was given up; busy, and with work to be busy with.
            return
        else:
            self.fleet.ejection.failed(attempt)

    def silent(self, flight: Flight, attempt: Attempt, *, silent_s: float) -> None:
        """Start a probe of a pod that was silent for long enough.

        There is no probe in three cases. The request reached the pod with hardly any time left. The
        pod served it until the end of its time. Or the request waited in a queue for its KV blocks,
        while other requests from the same prefill pod got theirs.
        """
        if attempt.queued:
            return
        timeouts = flight.settings.timeouts
        if silent_s >= min(timeouts.connect_s, timeouts.prefill_s):
            self.fleet.ejection.failed(attempt)
            self.fleet.doubt(attempt.pod)

    async def ends_here(self, flight: Flight, pod: Pod, failure: UpstreamFailure) -> bool:
        """Return whether the request must go to no other engine, because it seems to end engines.

        An engine has ended if its `/health` no longer answers. A terminating engine ended by
        itself. Before this returns, other routers know of it and have sent their own knowledge, if
        they are quick. A client that leaves meanwhile changes nothing.
        """
        if failure.reason not in _MAY_HAVE_ENDED or pod.endpoint.leaving:
            return False
        noted = asyncio.create_task(self._ended_with(flight, pod))
        self._noted.add(noted)
        noted.add_done_callback(self._noted.discard)
        return await asyncio.shield(noted)

    async def _ended_with(self, flight: Flight, pod: Pod) -> bool:
        if await self.upstream.lives(pod) or pod.endpoint.leaving:
            return False
        self.fleet.ejection.eject(pod, Why.REFUSED)
        digest = self.killers.ended(flight.call, credentials=flight.credentials, pod=pod.name)
        await self.peers.tell_ended(digest, pod=pod.name)
        ends_here = self.killers.has_ended_two(digest)
        logger.warning(
            "engine ended during a request",
            extra={"pod": pod.name, "request_id": flight.request_id, "again": not ends_here},
        )
        return ends_here


def gateway_error(failure: UpstreamFailure) -> ApiError:
    """Return the error for a client whose request no engine served."""
    if failure.reason is FailureReason.BUSY:
        return busy_error()
    if failure.reason is FailureReason.SILENT:
        return unavailable(
            "No engine began the answer in time; try again later.",
            code="engine_silent",
            retry_after_s=_BUSY_RETRY_S,
        )
    return ApiError(
        502,
        "The engine failed before it finished the answer.",
        kind="server_error",
        code="upstream_error",
    )


def no_place(fleet: EnginePods) -> ApiError:
    """Return the error for a client whose request got no pod in time."""
    missing = not fleet.usable(Role.DECODE)
    return unavailable(
        "No decode pod became ready in time; try again later."
        if missing
        else "The request waited too long for a prefill pod; try again later.",
        code="no_decode_pod" if missing else "queue_timeout",
        retry_after_s=_NO_POD_RETRY_S,
    )


def still_waking(left_s: float) -> ApiError:
    """Return the error for a client whose request cannot wait until the pool wakes."""
    return unavailable(
        "The pool was at zero and is starting; try again later.",
        code="pool_waking",
        retry_after_s=math.ceil(left_s),
    )


def busy_error() -> ApiError:
    """Return the error for a client whose request found engines without room."""
    return unavailable(
        "The engine is at its limit; try again later.",
        code="engine_busy",
        retry_after_s=_BUSY_RETRY_S,
    )
