"""How fast a decode replica is, as the simulated router knows it."""

from dataclasses import dataclass

from tandem_operator.core.learn.least_squares import Triple
from tandem_operator.sim.engines.profile import EngineProfile


@dataclass(frozen=True, slots=True)
class ToldPace:
    """How fast a decode replica is, as the operator told the router."""

    step_s: Triple
    kv_capacity_tokens: float | None
    max_num_seqs: int
    output_tokens: float | None
    routers: int = 1
    overflow: bool = True

    def seconds(self, streams: float, kv_tokens: float, /) -> float:
        """Seconds of a step with so many streams that hold so many tokens."""
        least_s, per_stream_s, per_token_s = self.step_s
        return least_s + per_stream_s * streams + per_token_s * kv_tokens


@dataclass(frozen=True, slots=True)
class TruePace:
    """How fast a decode replica is, as long as nobody has told the router anything."""

    profile: EngineProfile
    output_tokens: None = None
    routers: int = 1
    overflow: bool = True

    @property
    def kv_capacity_tokens(self) -> float:
        """Tokens that its cache holds."""
        return self.profile.kv_capacity_tokens

    @property
    def max_num_seqs(self) -> int:
        """Most streams in its batch."""
        return self.profile.max_num_seqs

    def seconds(self, streams: float, kv_tokens: float, /) -> float:
        """Seconds of a step; a profile knows whole batches alone."""
        return self.profile.step_s(max(1, round(streams)), kv_tokens)
