"""The fault matrix: every scenario, by family."""

from collections.abc import Sequence

from e2e.faults import (
    api_faults,
    kind_clients,
    kind_cluster,
    kind_engines,
    kind_network,
    simulated_faults,
)
from e2e.faults.scenario import Scenario

SCENARIOS: Sequence[Scenario] = (
    *simulated_faults.METRICS,
    *kind_cluster.METRICS,
    *simulated_faults.CAPACITY,
    *kind_cluster.CAPACITY,
    *api_faults.API,
    *kind_cluster.API,
    *kind_engines.ENGINES,
    *kind_network.NETWORK,
    *kind_clients.CLIENTS,
)

SEQUENCES: Sequence[Scenario] = (simulated_faults.SEQUENCE,)
"""Several faults at random times; a soak does the same on kind."""


def chosen(words: Sequence[str]) -> list[Scenario]:
    """Return the scenarios whose name or family begins with a word; without words, all."""
    found = [
        each
        for each in (*SCENARIOS, *SEQUENCES)
        if not words or any(each.name.startswith(w) or each.family.startswith(w) for w in words)
    ]
    for word in words:
        if not any(each.name.startswith(word) or each.family.startswith(word) for each in found):
            raise ValueError(f"no scenario or family begins with {word!r}; see --list")
    return found
