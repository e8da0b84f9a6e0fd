"""The order in which the Ready pods of a role leave in a shrink, as one number for each pod.

A leaving pod finishes its requests, so they cost only the time until its GPUs are free. Its prefix
cache is lost, and other pods compute those prompts again. Both are work, so both count in requests.
The operator's annotations and the simulator use the same number.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

from tandem_operator.core.observation import RouterReport


def leaving_cost(requests: float, *, worth_tokens: float = 0.0, tokens_each: float = 1.0) -> int:
    """Return the cost of a pod's end in requests: its own, and those that its cache saved lately.

    Args:
        requests: requests at the pod, waiting or running.
        worth_tokens: prompt tokens that its cache alone saved lately.
        tokens_each: prompt tokens that a prefill pod computes for a request on average.
    """
    return round(requests + worth_tokens / max(1.0, tokens_each))


class Served(Protocol):
    """Running totals of one prefill pod."""

    @property
    def requests(self) -> int:
        """Return the requests that it served."""

    @property
    def prompt_tokens(self) -> int:
        """Return their prompt tokens."""

    @property
    def cached_tokens(self) -> int:
        """Return those of them that it had cached."""


def computed_tokens_each(prefill: Iterable[Served]) -> float:
    """Return the prompt tokens that prefill pods computed for a request on average."""
    tokens = requests = 0
    for pod in prefill:
        tokens += pod.prompt_tokens - pod.cached_tokens
        requests += pod.requests
    return tokens / max(1, requests)


def cache_worth_tokens(routers: Iterable[RouterReport]) -> Mapping[str, int]:
    """Return what the cache of each prefill pod saved lately, over all routers."""
    found: dict[str, int] = {}
    for report in routers:
        for pod, tokens in report.cache_worth_tokens.items():
            found[pod] = found.get(pod, 0) + tokens
    return found
