"""The operator's memory of a pool: where it is kept between processes, and when it is due."""

from collections.abc import Iterable

from tandem_operator.core.memory import Memory, MemoryFormatError
from tandem_operator.core.observation import RouterReport
from tandem_operator.workloads.builders.settings import WRITTEN_KEY
from tandem_operator.workloads.names import MEMORY_KEY, PoolName, key_of
from tandem_operator.workloads.world import Object, World

WRITE_EVERY_S = 30.0


def stored_memory(world: World, name: PoolName) -> tuple[Memory, MemoryFormatError | None]:
    """The memory of the last process, and why it could not be read if it could not."""
    text = _data(world, name).get(MEMORY_KEY)
    if text is None:
        return Memory(), None
    try:
        return Memory.from_json(text), None
    except MemoryFormatError as error:
        return Memory(), error


def is_due(world: World, name: PoolName, *, moved: bool, now_s: float) -> bool:
    """Whether to write: on a decision, and every half minute while there is something to learn.

    A pool at rest learns nothing, and nothing of it is written. Who refused it once is not asked
    again at once.
    """
    refused_s = world.memory_refused_s
    if refused_s is not None and 0.0 <= now_s - refused_s < WRITE_EVERY_S:
        return False
    try:
        written_s = float(_data(world, name)[WRITTEN_KEY])
    except (KeyError, ValueError):
        return True
    if moved:
        return True
    return now_s - written_s >= WRITE_EVERY_S and _traffic_since(world.routers, written_s)


def _traffic_since(routers: Iterable[RouterReport], since_s: float) -> bool:
    return any(
        max(seconds, default=0) >= since_s - 1
        for report in routers
        for seconds in (
            [row.second for row in report.arrivals],
            [row.second for row in report.finished],
        )
    )


def _data(world: World, name: PoolName) -> Object:
    for body in world.children:
        if key_of(body) == ("ConfigMap", name.memory):
            return body.get("data") or {}
    return {}
