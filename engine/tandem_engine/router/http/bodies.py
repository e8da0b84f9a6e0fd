"""Bodies of requests: how many are still arriving, and how many bytes all bodies hold.

A body that is still arriving takes no place from complete requests. If all places for arriving
bodies are taken, the slowest one is refused for the next. A body counts by its arrived bytes, never
by the promised ones.
"""

import asyncio
from collections.abc import Callable
from types import TracebackType

from tandem_contracts.router_settings import LimitSettings
from tandem_engine.router.openai.errors import ApiError, unavailable
from tandem_engine.router.settings_in_force import SettingsHolder

LEAST_BYTES_PER_S = 16 * 1024
"""A body that is slower than this over a whole `timeouts.body_s` is given up."""


class Body:
    """One body; it counts until its request ends."""

    __slots__ = ("_bodies", "_wait", "_window_bytes", "began_s", "gave_way", "size")

    def __init__(self, bodies: "Bodies", began_s: float) -> None:
        self._bodies = bodies
        self._wait: asyncio.Timeout | None = None
        self._window_bytes = 0
        self.began_s = began_s
        self.gave_way = False
        self.size = 0

    def __enter__(self) -> "Body":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._bodies.held_bytes -= self.size

    def sent(self, wait: asyncio.Timeout) -> "Sending":
        """Take a place among the arriving bodies until it is complete; `wait` limits the time."""
        self._wait = wait
        return Sending(self._bodies, self)

    def grow(self, size: int, limits: LimitSettings) -> None:
        """Count arrived bytes; raises `ApiError` if all bodies together are too large."""
        if self.size + size > limits.body_bytes:
            raise body_too_large(limits.body_bytes)
        self.hold(size, limits)

    def hold(self, size: int, limits: LimitSettings) -> None:
        """Count bytes that are kept for the request; raises `ApiError` if there is no room."""
        if self._bodies.held_bytes + size > limits.in_flight_body_bytes:
            raise unavailable(
                "This router has reached its limit of body bytes; try again later.",
                code="too_many_body_bytes",
                retry_after_s=1,
            )
        self.size += size
        self._bodies.held_bytes += size

    def waited_for(self, size: int, body_s: float) -> None:
        """Restart the time limit, once enough bytes came in that time."""
        self._window_bytes += size
        if self._wait is None or self.gave_way:
            return
        if self._window_bytes >= LEAST_BYTES_PER_S * body_s:
            self._window_bytes = 0
            self._wait.reschedule(asyncio.get_running_loop().time() + body_s)

    def give_way(self) -> None:
        """End the wait for the rest of it."""
        if self._wait is not None and not self._wait.expired():
            self.gave_way = True
            self._wait.reschedule(asyncio.get_running_loop().time())

    def rate(self, now: float) -> float:
        """Return its bytes per second so far."""
        return self.size / max(1e-3, now - self.began_s)


class Sending:
    """A place among the arriving bodies."""

    __slots__ = ("_bodies", "_body")

    def __init__(self, bodies: "Bodies", body: Body) -> None:
        self._bodies = bodies
        self._body = body

    def __enter__(self) -> None:
        self._bodies.begin(self._body)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._bodies.end(self._body)


class Bodies:
    """All bodies of one router.

    Attributes:
        held_bytes: bytes of all bodies here, whole or in part.
    """

    def __init__(self, *, settings: SettingsHolder, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._clock = clock
        self._sending: dict[Body, None] = {}
        self.held_bytes = 0

    @property
    def sending(self) -> int:
        """Return the number of arriving bodies."""
        return len(self._sending)

    def body(self) -> Body:
        """Return a new body; the caller leaves it as a context when its request ends."""
        return Body(self, self._clock())

    def begin(self, body: Body) -> None:
        """Add an arriving body; if these are too many, end the slowest other one."""
        settings = self._settings.current
        if settings is not None and len(self._sending) >= settings.limits.concurrent_requests:
            now = self._clock()
            slowest = min(self._sending, key=lambda one: (one.rate(now), one.began_s))
            slowest.give_way()
            del self._sending[slowest]
        self._sending[body] = None

    def end(self, body: Body) -> None:
        """Record that a body no longer arrives."""
        self._sending.pop(body, None)


def body_too_large(most: int) -> ApiError:
    """Return the refusal of a body with more than `most` bytes."""
    return ApiError(
        413,
        f"The body is larger than the limit of {most} bytes; send a smaller one.",
        code="body_too_large",
    )
