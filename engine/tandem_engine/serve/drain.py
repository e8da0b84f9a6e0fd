"""The end of a drain: requests done, KV leases ended, routers aware of it. Pure.

A prefill engine keeps the blocks of a finished request until a decode engine has pulled them or
their lease ends. So "no request is running" is not yet "nothing is lost". Unknown load never counts
as zero.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from tandem_engine.serve.vllm_metrics import EngineLoad


class Drained(StrEnum):
    """The reason why the wait is over."""

    IDLE = "idle"
    LEASES_OVER = "leases over"
    DEADLINE = "deadline"


@dataclass(slots=True)
class Drain:
    """The wait from leaving readiness to stopping vLLM; times are seconds of one steady clock."""

    started_s: float
    timeout_s: float
    settle_s: float
    lease_s: float
    _last: EngineLoad | None = field(default=None, init=False)
    _quiet_since_s: float | None = field(default=None, init=False)
    _unchanged_since_s: float | None = field(default=None, init=False)

    def observe(self, load: EngineLoad | None, *, now_s: float) -> Drained | None:
        """Process the load (`None`: not known); return why to stop, or `None` to wait longer."""
        self._follow(load, now_s)
        if now_s - self.started_s >= self.timeout_s:
            return Drained.DEADLINE
        if self._last is None or load is None or self._quiet_since_s is None:
            return None
        settled = min(now_s - self.started_s, now_s - self._quiet_since_s) >= self.settle_s
        if not settled:
            return None
        if load.idle:
            return Drained.IDLE
        assert self._unchanged_since_s is not None, "set with every load that is taken in"  # noqa: S101
        # A decode engine that still wants the blocks renews their lease, by two thirds at most.
        if now_s - self._unchanged_since_s >= 2 * self.lease_s:
            return Drained.LEASES_OVER
        return None

    def _follow(self, load: EngineLoad | None, now_s: float) -> None:
        if load is None:
            self._quiet_since_s = None
            return
        if load != self._last or self._unchanged_since_s is None:
            self._unchanged_since_s = now_s
        busy = load.running > 0 or load.waiting > 0
        came = self._last is not None and load.finished != self._last.finished
        if busy or came:
            self._quiet_since_s = None
        elif self._quiet_since_s is None:
            self._quiet_since_s = now_s
        self._last = load
