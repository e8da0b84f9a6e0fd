"""The peers that reach a part of a pool, and those that do not, for any policy engine."""

from collections.abc import Iterator
from dataclasses import dataclass

from tests.unit.workloads.reach import Peer, pool_pod

PREFILL, DECODE, ROUTER = (pool_pod(each) for each in ("prefill", "decode", "router"))
ENGINES = (PREFILL, DECODE)
OPERATOR = Peer(
    "the operator",
    "10.2.0.1",
    "tandem-system",
    {"app.kubernetes.io/name": "tandem", "app.kubernetes.io/component": "operator"},
)
OPERATOR_ELSEWHERE = Peer("what looks like the operator", "10.2.0.9", "mallory", OPERATOR.labels)
PROMETHEUS = Peer("Prometheus", "10.3.0.1", "monitoring", {"app": "prometheus"})
NEIGHBOUR = Peer("a pod beside the pool", "10.1.0.9", "serving", {"app": "web"})
TENANT = Peer("another tenant", "10.4.0.1", "mallory", {"app": "web"})
LOOKALIKE = pool_pod("router", namespace="mallory")
OTHER_POOL = pool_pod("decode", pool="chat")
OTHER_ROUTER = pool_pod("router", pool="chat")
OUTSIDE = Peer("somebody outside", "203.0.113.9")
METADATA = Peer("the cloud's metadata", "169.254.169.254")
STRANGERS = (OPERATOR_ELSEWHERE, NEIGHBOUR, TENANT, LOOKALIKE, OTHER_POOL, OUTSIDE)
SIDE_CHANNEL, UCX, UCX_LOW = 5600, 45_123, 1024


@dataclass(frozen=True, slots=True)
class Case:
    """One question and its answer."""

    source: Peer
    target: Peer
    port: int
    allowed: bool
    protocol: str = "TCP"

    def __str__(self) -> str:
        does = "reaches" if self.allowed else "does not reach"
        return f"{self.source.name} {does} {self.target.name} on {self.protocol} {self.port}"


def _cases() -> Iterator[Case]:
    for engine, other in (ENGINES, ENGINES[::-1]):
        yield Case(ROUTER, engine, 8000, True)
        yield Case(ROUTER, engine, 8001, False)
        yield Case(ROUTER, engine, SIDE_CHANNEL, False)
        yield Case(OPERATOR, engine, 8000, True)
        yield Case(OPERATOR, engine, 8001, True)
        yield Case(OPERATOR, engine, SIDE_CHANNEL, False)
        yield Case(PROMETHEUS, engine, 8000, True)
        yield Case(PROMETHEUS, engine, 8001, False)
        for port in (8000, SIDE_CHANNEL, UCX, UCX_LOW, 65_535):
            yield Case(other, engine, port, True)
        yield Case(other, engine, 8001, False)
        yield Case(other, engine, 22, False)
        # Blocks go from one role to the other; engines of one role have nothing to tell each other.
        yield Case(engine, engine, SIDE_CHANNEL, False)
        for stranger in STRANGERS:
            for port in (8000, 8001, SIDE_CHANNEL, UCX):
                yield Case(stranger, engine, port, False)
        # Where a pull of KV blocks might be aimed.
        for target in (NEIGHBOUR, TENANT, METADATA, OUTSIDE, OTHER_POOL):
            yield Case(engine, target, SIDE_CHANNEL, False)
            yield Case(engine, target, 80, False)
            yield Case(engine, target, 6443, False)
        yield Case(engine, NEIGHBOUR, 53, True, "UDP")
        yield Case(engine, NEIGHBOUR, 53, True)
    for client in (NEIGHBOUR, TENANT, OUTSIDE, PROMETHEUS):
        yield Case(client, ROUTER, 8000, True)
    for stranger in (*STRANGERS, *ENGINES):
        yield Case(stranger, ROUTER, 9100, False)
    yield Case(OPERATOR, ROUTER, 9100, True)
    yield Case(ROUTER, ROUTER, 9100, True)
    yield Case(OTHER_ROUTER, ROUTER, 9100, False)
    yield Case(PROMETHEUS, ROUTER, 9100, True)
    yield Case(ROUTER, OUTSIDE, 6443, True)


CASES = tuple(_cases())
