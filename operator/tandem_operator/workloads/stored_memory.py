"""The memory of a pool between processes: its JSON, its place, and the times to write it.

The JSON is unrounded and versioned. A decision is the same with a memory that was stored and read.
Only fleets of hundreds lose something: one row of measurements for each prefill pod.
"""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ConfigDict, RootModel, ValidationError

from tandem_operator.api.parse import faults
from tandem_operator.core.memory import VERSION, Memory
from tandem_operator.core.observation import RouterReport
from tandem_operator.workloads.builders.config_maps import WRITTEN_KEY
from tandem_operator.workloads.pool_names import MEMORY_KEY, PoolName, key_of
from tandem_operator.workloads.world import Object, World

WRITE_EVERY_S = 30.0
MOST_BYTES = 512 * 1024
"""Half of the limit of a ConfigMap. All but the legs of the largest pool stays below it."""


class MemoryFormatError(ValueError):
    """A stored memory cannot be used; the sentence says why."""


class _Header(BaseModel):
    """The fields that say whether the rest can be read."""

    version: Any = None


class _Stored(RootModel[Memory]):
    """A memory whose values have exactly the types of its fields; others are not read."""

    # The validator is made late, because this takes tens of milliseconds and most commands read no
    # memory. A number that is not finite must reach `json.dumps`, which refuses it, also in a field
    # of whole numbers.
    model_config = ConfigDict(
        strict=True, allow_inf_nan=False, ser_json_inf_nan="constants", defer_build=True
    )


def memory_to_json(memory: Memory) -> str:
    """Return compact JSON that `memory_from_json` reads back exactly, except legs if they are many.

    Raises:
        ValueError: a number is not finite.
    """
    text = _compact(memory)
    if len(text) <= MOST_BYTES:
        return text
    # There is one for each router and prefill pod, and together they save only one row a pod.
    return _compact(replace(memory, learned=replace(memory.learned, legs={})))


def memory_from_json(text: str) -> Memory:
    """Return the memory in `text`; missing fields have their defaults.

    Raises:
        MemoryFormatError: not JSON, another version, or a field of another shape.
    """
    try:
        version = _Header.model_validate_json(text).version
        if version != VERSION:
            raise MemoryFormatError(
                f"The stored memory has version {version!r:.40}, expected {VERSION}"
            )
        return _Stored.model_validate_json(text).root
    except ValidationError as error:
        why = faults(error)[0]
        raise MemoryFormatError(f"The stored memory cannot be read: {why}") from error


def _compact(memory: Memory) -> str:
    # Not by pydantic: it would write null for a number that is not finite.
    plain = _Stored(memory).model_dump(mode="json")
    return json.dumps(plain, separators=(",", ":"), allow_nan=False)


def stored_memory(world: World, name: PoolName) -> tuple[Memory, MemoryFormatError | None]:
    """Return the memory of the last process, or the reason why it could not be read."""
    text = _data(world, name).get(MEMORY_KEY)
    if text is None:
        return Memory(), None
    try:
        return memory_from_json(text), None
    except MemoryFormatError as error:
        return Memory(), error


def is_due(world: World, name: PoolName, *, moved: bool, now_s: float) -> bool:
    """Return whether to write: on a decision, and every half minute while there is news to learn.

    A pool at rest learns nothing, so nothing is written. After a refusal, the API server is not
    asked again at once.
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
