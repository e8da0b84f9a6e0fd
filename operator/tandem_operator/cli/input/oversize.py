"""Requests that no fleet can serve: longer than the model's context or than a replica's KV cache.

The simulator refuses them on arrival, as engines do; replicas change nothing about that.
"""

from dataclasses import dataclass

from tandem_operator.cli.units import share
from tandem_operator.core.spec import PoolSpec
from tandem_operator.sim.engines.profile import EngineProfile
from tandem_operator.sim.traces.trace import Trace


@dataclass(frozen=True, slots=True)
class Oversize:
    """The requests of a trace that are too long.

    Attributes:
        requests: requests of the trace in all.
        limit: what they exceed, and by its own number.
        remedy: what would let them in.
    """

    count: int
    requests: int
    longest_tokens: int
    limit: str
    remedy: str

    @property
    def most_attainment(self) -> float:
        """The share of requests that can be good at best."""
        return 1.0 - self.count / self.requests

    @property
    def note(self) -> str:
        """The fact in a sentence."""
        return (
            f"{self._fact} (the longest has {self.longest_tokens:,} tokens); no fleet can serve"
            " them."
        )

    @property
    def answer(self) -> str:
        """What it means for an SLO that asks for more than the rest."""
        return (
            f"No fleet can keep the SLO: {self._fact}. At most {share(self.most_attainment)} can be"
            f" good with any number of replicas. {self.remedy}, or remove them from the trace."
        )

    @property
    def _fact(self) -> str:
        are = "is" if self.count == 1 else "are"
        return f"{self.count:,} of {self.requests:,} requests {are} longer than {self.limit}"


def oversize_of(trace: Trace, spec: PoolSpec, profile: EngineProfile) -> Oversize | None:
    """The requests that are too long; `None` where all fit."""
    capacity = profile.kv_capacity_tokens
    most = min(capacity, spec.max_model_len)
    lengths = (r.prompt_tokens + r.output_tokens for r in trace.requests)
    long = [tokens for tokens in lengths if tokens > most]
    if not long:
        return None
    limit = f"spec.model.maxModelLen {spec.max_model_len}"
    remedy = f"Raise maxModelLen to {max(long)}"
    if capacity < spec.max_model_len:
        limit = f"the {capacity:,} tokens of a replica's KV cache"
        remedy = "Use engines with a larger KV cache (--kv-tokens)"
    return Oversize(len(long), len(trace.requests), max(long), limit, remedy)
