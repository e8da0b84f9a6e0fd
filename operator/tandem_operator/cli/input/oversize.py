"""Requests that no fleet can serve: longer than the model's context or a replica's KV cache.

The simulator refuses them on arrival, as engines do. More replicas change nothing about that.
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
        requests: all requests of the trace.
        limit: the limit that they exceed, with its value.
        remedy: the change that would admit them.
    """

    count: int
    requests: int
    longest_tokens: int
    limit: str
    remedy: str

    @property
    def most_attainment(self) -> float:
        """Return the largest share of requests that can be good."""
        return 1.0 - self.count / self.requests

    @property
    def note(self) -> str:
        """Return the fact in a sentence."""
        return (
            f"{self._fact} (the longest has {self.longest_tokens:,} tokens); no fleet can serve"
            " them."
        )

    @property
    def answer(self) -> str:
        """Return the consequence for an SLO with a higher objective than that share."""
        return (
            f"No fleet can keep the SLO: {self._fact}. At most {share(self.most_attainment)} can be"
            f" good with any number of replicas. {self.remedy}, or remove them from the trace."
        )

    @property
    def _fact(self) -> str:
        are = "is" if self.count == 1 else "are"
        return f"{self.count:,} of {self.requests:,} requests {are} longer than {self.limit}"


def oversize_of(trace: Trace, spec: PoolSpec, profile: EngineProfile) -> Oversize | None:
    """Return the requests that are too long; `None` if all fit."""
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
