"""The end of a decode leg that was silent for too long: its pod hangs, or is only busy."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from tandem_engine.router.forwarding.failures import Failures, busy_error
from tandem_engine.router.forwarding.flight import Flight, LearnedByRouter
from tandem_engine.router.forwarding.sink import Sink
from tandem_engine.router.openai.errors import ApiError
from tandem_engine.router.pods.health import Attempt
from tandem_engine.router.pods.pod import Pod
from tandem_routing.time_shares import Stage
from tandem_routing.verdict import Ending

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """Ends requests whose pod was silent for too long."""

    failures: Failures
    learned: LearnedByRouter
    clock: Callable[[], float]

    async def ended(
        self, flight: Flight, sink: Sink, attempt: Attempt, *, began: float, stage: Stage
    ) -> web.StreamResponse:
        """Tell the client that the pod of its request was silent for too long."""
        last_s = flight.timeline.last_token_s
        started = last_s is not None
        heard_s = began if last_s is None else last_s + sink.stalled_s
        self.failures.silent(flight, attempt, silent_s=self.clock() - heard_s)
        busy = not started and self._was_busy(flight, attempt.pod, began=began, stage=stage)
        flight.ending = Ending.SHED if busy else Ending.FAILED if started else Ending.TIMED_OUT
        logger.warning(
            "engine pod was silent for too long",
            extra={
                "pod": attempt.pod.name,
                "phase": "between tokens" if started else "first token",
            },
        )
        if sink.begun:
            return await sink.fail(_error(busy=busy, started=started))
        raise _error(busy=busy, started=started)

    def _was_busy(self, flight: Flight, pod: Pod, *, began: float, stage: Stage) -> bool:
        """Return whether a pod without a first token in time does not hang.

        The pod served other requests meanwhile, or the request came too late.
        """
        given_s = self.clock() - began
        served_others = pod.health.progress_s > began
        return served_others or given_s < self.learned.needed_of(flight, stage=stage)


def _error(*, busy: bool, started: bool) -> ApiError:
    if busy:
        return busy_error()
    return ApiError(
        504,
        "The engine stopped sending in the middle of the answer."
        if started
        else "The first token did not arrive in time.",
        kind="server_error",
        code="idle_timeout" if started else "first_token_timeout",
    )
