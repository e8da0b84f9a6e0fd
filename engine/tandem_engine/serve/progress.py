"""The progress of vLLM, by its counters and completions. Pure.

`/health` of vLLM 0.32 notices only an engine core that exited. A core that hangs stays healthy for
ever behind its HTTP server, but its counters stand still. The counters of a core also stand still
if all its KV blocks are promised to others. Such a core gets more time, as long as leases can last.

Only a new token clears a doubted pod.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from tandem_engine.serve.engine_settings import Device, EngineSettings
from tandem_engine.serve.vllm_metrics import Counters

LONGEST_LOOK_S = 15.0
"""Longest time that counts between two looks; in any further time the launcher stood still."""
# Prompt tokens that vLLM computes in one step by default.
_STEP_TOKENS = {Device.CPU: 2048, Device.CUDA: 8192}
_STEP_OPTION = "--max-num-batched-tokens"
_READY_STEPS, _LIVE_STEPS = 2.0, 6.0
# A lease that a decode engine renews lasts for this many at most.
_LEASES = 2.0


class Standing(StrEnum):
    """The verdict on the time without progress."""

    FINE = "fine"
    DOUBTED = "doubted"
    HUNG = "hung"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The longest times without progress, in seconds.

    Attributes:
        doubted_s, hung_s: times without a sign of life from the core.
        blocked_s: additional time while all its requests wait and KV blocks are held.
    """

    doubted_s: float
    hung_s: float
    blocked_s: float

    @property
    def unproven_s(self) -> float:
        """Return the time without progress after which vLLM is asked for a token."""
        return self.doubted_s / 4


def bounds_of(settings: EngineSettings, *, token_s: float) -> Bounds:
    """Return the bounds of the settings, or longer ones for a slow machine's longest step.

    Args:
        settings: the launcher's settings.
        token_s: time of one prompt token in the warm-up.
    """
    step_s = _step_tokens(settings) * token_s
    return Bounds(
        doubted_s=max(settings.not_ready_after_s, _READY_STEPS * step_s),
        hung_s=max(settings.not_live_after_s, _LIVE_STEPS * step_s),
        blocked_s=_LEASES * settings.kv_lease_s,
    )


@dataclass(frozen=True, slots=True)
class Look:
    """The result of one look at vLLM.

    Attributes:
        counters: counters of its metrics page; `None` if it did not answer.
        completed: number of tokens that the launcher has asked for and received.
    """

    counters: Counters | None
    completed: int = 0


@dataclass(slots=True)
class Progress:
    """The verdict over consecutive looks; times are seconds of one steady clock.

    Attributes:
        since_s: time of vLLM's last progress.
    """

    bounds: Bounds
    since_s: float
    _at_s: float = field(init=False)
    _still_s: float = field(default=0.0, init=False)
    _last: Counters | None = field(default=None, init=False)
    _completed: int = field(default=0, init=False)
    _doubted: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._at_s = self.since_s

    @property
    def unproven(self) -> bool:
        """Return whether to ask vLLM for a token."""
        return self._still_s >= self.bounds.unproven_s

    @property
    def requests(self) -> int:
        """Return the number of requests in vLLM's last report."""
        return 0 if self._last is None else self._last.requests

    def observe(self, look: Look, *, now_s: float) -> Standing:
        """Process a look and return the verdict."""
        passed_s = min(max(0.0, now_s - self._at_s), LONGEST_LOOK_S)
        self._at_s = now_s
        self._still_s += passed_s
        if self._made_token(look):
            self._doubted = False
        if self._moved(look):
            self._still_s = 0.0
            self.since_s = now_s
        self._last = look.counters or self._last
        self._completed = look.completed
        return self._standing()

    def _made_token(self, look: Look) -> bool:
        if look.completed > self._completed:
            return True
        counters, last = look.counters, self._last
        return counters is not None and last is not None and counters.tokens > last.tokens

    def _moved(self, look: Look) -> bool:
        if look.completed > self._completed:
            return True
        counters = look.counters
        return counters is not None and (counters.asleep or counters != self._last)

    def _standing(self) -> Standing:
        blocked = self._last is not None and self._last.blocked
        still_s = self._still_s - (self.bounds.blocked_s if blocked else 0.0)
        if still_s >= self.bounds.hung_s:
            return Standing.HUNG
        self._doubted = self._doubted or still_s >= self.bounds.doubted_s
        return Standing.DOUBTED if self._doubted else Standing.FINE


def _step_tokens(settings: EngineSettings) -> int:
    for argument in reversed(settings.extra_arg):
        name, _, value = argument.partition("=")
        if name.replace("_", "-") == _STEP_OPTION and value.isdecimal():
            return int(value)
    return _STEP_TOKENS[settings.device]
