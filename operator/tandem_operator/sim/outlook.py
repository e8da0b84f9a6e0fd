"""What a router can reckon from what it sent where: when prefill is free, what decode can bear.

It knows a prompt's length and the engines' speed, as it learns both live. How many tokens a request
will make it does not know: it goes by those that ended.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from tandem_operator.sim.decode_pod import DecodePod
from tandem_operator.sim.flight import Flight
from tandem_operator.sim.pods import Pod
from tandem_operator.sim.prefill_pod import PrefillPod
from tandem_operator.sim.profile import EngineProfile

# A stream must bear each stall over its own life; until one has ended, this long a life.
FIRST_OUTPUT_TOKENS = 128.0
OUTPUT_KEEP = 0.98
# A newcomer waits for the step under way, half of one on average, and then for its own.
STEPS_TO_FIRST = 1.5
MOST_STALLED_SHARE = 0.9


class DecodeSpeed(Protocol):
    """What is known of a decode replica: an engine's profile, or what the operator tells."""

    @property
    def kv_capacity_tokens(self) -> float | None:
        """Tokens that its cache holds; `None`: not known."""

    @property
    def max_num_seqs(self) -> int:
        """Most streams in its batch."""

    def step_s(self, batch: int, kv_tokens: float, /) -> float:
        """Seconds of a step with so many streams that hold so many tokens."""


@dataclass(slots=True)
class _Stall:
    at_s: float
    seconds: float


@dataclass(slots=True)
class Outlook:
    """Expectations of one pool; pods are known by their index.

    Attributes:
        decode: how fast decode replicas are; `None` while nobody told.
    """

    profile: EngineProfile
    tpot_s: float
    decode: DecodeSpeed | None
    output_tokens: float = FIRST_OUTPUT_TOKENS
    _free_s: dict[int, float] = field(default_factory=dict)
    _sent: dict[int, dict[int, float]] = field(default_factory=dict)
    _stalls: dict[int, deque[_Stall]] = field(default_factory=dict)

    def sent(self, pod: Pod[PrefillPod], flight: Flight, service_s: float, now_s: float) -> None:
        """A prompt went to a prefill pod."""
        self._sent.setdefault(pod.index, {})[flight.number] = service_s
        self._free_s[pod.index] = self.free_s(pod, now_s) + service_s

    def came_back(self, pod: Pod[PrefillPod], flights: Iterable[Flight], now_s: float) -> None:
        """A prefill pod is done with some: what is left there begins now."""
        sent = self._sent.setdefault(pod.index, {})
        for flight in flights:
            sent.pop(flight.number, None)
        self._free_s[pod.index] = now_s + sum(sent.values())

    def free_s(self, pod: Pod[PrefillPod], now_s: float) -> float:
        """When a prefill pod will be done with what it has."""
        return max(now_s, self._free_s.get(pod.index, now_s))

    def ended(self, output_tokens: int) -> None:
        """A request made so many tokens."""
        self.output_tokens += (1.0 - OUTPUT_KEEP) * (output_tokens - self.output_tokens)

    def stall(self, pod: Pod[DecodePod], seconds: float, now_s: float) -> None:
        """A decode pod was sent a prompt to compute by itself."""
        self._stalls.setdefault(pod.index, deque()).append(_Stall(now_s, seconds))

    def pace_s(
        self,
        speed: DecodeSpeed,
        pod: Pod[DecodePod],
        now_s: float,
        *,
        more: int,
        kv_tokens: float,
        stall_s: float = 0.0,
    ) -> float:
        """TPOT at a decode pod with so many more streams and tokens, stalls of late included.

        A stream that lives through a share of stalls makes its tokens in the rest of its time.
        """
        batch = max(1, pod.engine.requests + more)
        step_s = speed.step_s(batch, pod.engine.kv_tokens + kv_tokens)
        life_s = self.output_tokens * self.tpot_s
        stalls = self._stalls.get(pod.index)
        stalled_s = stall_s
        if stalls:
            while stalls and stalls[0].at_s < now_s - life_s:
                stalls.popleft()
            stalled_s += sum(stall.seconds for stall in stalls)
        return step_s / (1.0 - min(MOST_STALLED_SHARE, stalled_s / life_s))

    def first_token_s(self, pods: Iterable[Pod[DecodePod]]) -> float:
        """From a hand-over to the first token, at the idlest decode pod as last seen."""
        steps = (
            self.profile.step_s(max(1, pod.engine.requests), pod.engine.kv_tokens) for pod in pods
        )
        return STEPS_TO_FIRST * min(steps, default=0.0)
