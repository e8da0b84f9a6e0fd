"""The pools that want the same requests of a Gateway, which gives them to the older route. Pure."""

from collections.abc import Iterator, Sequence
from itertools import combinations

from tandem_operator.api import InferencePool
from tandem_operator.api.v1alpha1.gateway import Gateway, ParentRef

REMEDY = (
    "give each its own hostname, or its own model names and"
    " gateway.modelHeader: X-Gateway-Model-Name"
)


def contested(
    pools: Sequence[InferencePool],
) -> Iterator[tuple[InferencePool, InferencePool, str]]:
    """Yield each two pools that want the same requests, and these requests in words."""
    for one, other in combinations(pools, 2):
        if _title(one) == _title(other):
            # The same pool, as found in two clusters.
            continue
        first, second = one.spec.router.gateway, other.spec.router.gateway
        if first is None or second is None or not _meet(one, first, other, second):
            continue
        hosts = sorted({*first.hosts} & {*second.hosts})
        models = _shared_models(one, first, other, second)
        if (hosts or first.hosts == second.hosts) and models is not None:
            host = f"of {hosts[0]}" if hosts else ""
            yield one, other, " ".join(filter(None, ["the requests", host, models]))


def _title(pool: InferencePool) -> tuple[str, str]:
    return pool.metadata.namespace, pool.metadata.name


def _meet(one: InferencePool, first: Gateway, other: InferencePool, second: Gateway) -> bool:
    return any(
        _same_listener(mine, one.metadata.namespace, theirs, other.metadata.namespace)
        for mine in first.parent_refs
        for theirs in second.parent_refs
    )


def _same_listener(mine: ParentRef, here: str, theirs: ParentRef, there: str) -> bool:
    return (
        mine.name == theirs.name
        and (mine.namespace or here) == (theirs.namespace or there)
        and _overlap(mine.section_name, theirs.section_name)
        and _overlap(mine.port, theirs.port)
    )


def _overlap(mine: str | int | None, theirs: str | int | None) -> bool:
    """Return whether both may be equal; a missing value means all."""
    return mine is None or theirs is None or mine == theirs


def _shared_models(
    one: InferencePool, first: Gateway, other: InferencePool, second: Gateway
) -> str | None:
    """Return in words the requests that both want; `None` if a header separates them."""
    headers = [each.model_header and each.model_header.lower() for each in (first, second)]
    if headers == [None, None]:
        return ""
    if headers[0] != headers[1]:
        return None
    shared = sorted({*one.spec.model.names} & {*other.spec.model.names})
    return f"for model {shared[0]}" if shared else None
