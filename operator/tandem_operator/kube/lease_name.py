"""The name of an operator's Lease; templates/_names.tpl of the chart computes the same name."""

import hashlib
from collections.abc import Sequence

LEASE_NAME = "tandem-operator"


def lease_name(namespaces: Sequence[str]) -> str:
    """Return the name for a set of namespaces; no namespaces: all."""
    if not namespaces:
        return LEASE_NAME
    if len(namespaces) == 1:
        return f"{LEASE_NAME}-{namespaces[0]}"
    # Many names together are longer than a name can be.
    return f"{LEASE_NAME}-{hashlib.sha256(','.join(namespaces).encode()).hexdigest()[:10]}"
