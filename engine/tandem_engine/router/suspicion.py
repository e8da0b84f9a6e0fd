"""What a failure or a silence says of the pod that it came from."""

import logging

from tandem_engine.router.fleet import Fleet
from tandem_engine.router.flight import Flight
from tandem_engine.router.pod import Pod
from tandem_engine.router.upstream import Reason, UpstreamFailure

logger = logging.getLogger(__name__)


def doubt(fleet: Fleet, flight: Flight, pod: Pod, *, silent_s: float) -> None:
    """Have a probe tell what `pod` is, where it was silent long enough to say anything about it.

    A request that came to the pod with its time all but spent does not, nor does one that it served
    until the end of that.
    """
    timeouts = flight.settings.timeouts
    if silent_s >= min(timeouts.connect_s, timeouts.prefill_s):
        fleet.doubt(pod)


def note_failure(fleet: Fleet, pod: Pod, failure: UpstreamFailure) -> None:
    """Log that `pod` did not serve a request, and send it no other where it takes none."""
    if failure.reason is Reason.REFUSED:
        fleet.suspect(pod)
    logger.warning(
        "engine pod did not serve a request",
        extra={"pod": pod.name, "reason": failure.reason.value, "status": failure.status},
    )
