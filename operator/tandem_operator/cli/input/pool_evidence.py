"""The evidence that explains a pool: the object, its Events, the operator's memory of it."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from tandem_operator.api import (
    API_VERSION,
    GROUP,
    KIND,
    InferencePool,
    InvalidPoolError,
    PoolStatus,
    parse_pool,
    parse_status,
)
from tandem_operator.cli.command_errors import BadInputError, FailedError
from tandem_operator.cli.input.cluster_access import Where, connected, plain_errors
from tandem_operator.cli.input.manifest import is_pool, objects
from tandem_operator.cli.input.pool_list import list_pools, name_of, namespace_of
from tandem_operator.core.memory import Memory
from tandem_operator.workloads.pool_names import MEMORY_KEY, PoolName
from tandem_operator.workloads.stored_memory import MemoryFormatError, memory_from_json

if TYPE_CHECKING:
    from tandem_operator.kube.client import Kube

Object = Mapping[str, Any]
LOOK_EVERY_S, WATCH_S = 5.0, 60.0


@dataclass(frozen=True, slots=True)
class PostedEvent:
    """One Event."""

    at: str
    reason: str
    message: str
    warning: bool


@dataclass(frozen=True, slots=True)
class Evidence:
    """All known facts about a pool.

    Attributes:
        pool: `None` if the spec makes no sense; `fault` says why.
        events: oldest first.
        memory: `None` if there is none, or it cannot be read; `memory_fault` says why.
    """

    name: str
    namespace: str
    pool: InferencePool | None
    fault: str | None
    status: PoolStatus
    events: tuple[PostedEvent, ...]
    memory: Memory | None
    memory_fault: str | None

    @property
    def news(self) -> Any:
        """Return the parts whose change is news for a watcher."""
        conditions = self.status.conditions or []
        return (
            self.status.decision,
            self.status.observed_generation,
            [(each.type, each.status, each.reason) for each in conditions],
            len(self.events),
        )


def from_file(path: Path, name: str | None, namespace: str | None) -> Evidence:
    """Return the evidence in a saved file.

    Raises:
        BadInputError: no such pool, or several.
    """
    found = objects(path)
    every = [obj for obj in found if is_pool(obj)]
    pools = [
        obj
        for obj in every
        if name in (None, name_of(obj)) and (namespace is None or _is_in(obj, namespace))
    ]
    if len(pools) != 1:
        called = f" {name}" if name else ""
        where = f" in namespace {namespace}" if namespace else ""
        count = "no InferencePool" if not pools else f"{len(pools)} InferencePools"
        there = _listed(every)
        raise BadInputError(
            f"{path}: holds {count}{called}{where}; expected exactly one of {GROUP}"
            + (f"; there are {there}" if there else "")
        )
    [pool] = pools
    around = [obj for obj in found if _is_in(obj, namespace_of(pool))]
    events = [obj for obj in around if obj.get("kind") == "Event"]
    maps = [obj for obj in around if obj.get("kind") == "ConfigMap"]
    memory = next((obj for obj in maps if name_of(obj) == _memory_name(name_of(pool))), None)
    try:
        return _evidence(pool, events, memory)
    except ValidationError as error:
        fault = error.errors()[0]
        field = ".".join(str(step) for step in fault["loc"])
        raise BadInputError(f"{path}: status.{field}: {fault['msg']}") from None


class Lookout:
    """A way to look at a pool in its cluster again and again."""

    def __init__(self, kube: "Kube", *, namespace: str, pool: str) -> None:
        self._kube = kube
        self._namespace = namespace
        self._pool = pool
        self._version = ""
        self._may_watch = True

    async def look(self) -> Evidence:
        """Return the pool as it is now.

        Raises:
            FailedError: no such pool, no right to read it, or no answer.
        """
        from tandem_operator.kube.kinds import CONFIG_MAP, CORE_EVENT  # noqa: PLC0415

        kube, namespace, name = self._kube, self._namespace, self._pool
        with plain_errors():
            pool = await live_pool(kube, namespace, name)
            about = f"involvedObject.kind={KIND},involvedObject.name={name}"
            events = await kube.list(CORE_EVENT, namespace=namespace, fields=about)
            memory = await kube.get(CONFIG_MAP, namespace=namespace, name=_memory_name(name))
        self._version = str((pool.get("metadata") or {}).get("resourceVersion") or "")
        return _evidence(pool, events, memory)

    async def changed(self) -> None:
        """Wait until the pool differs from the last look, or for a fixed time.

        A user who may read the pool but not watch it waits for the fixed time.

        Raises:
            SilentClusterError: the API server does not answer.
        """
        from tandem_operator.kube.client import ApiServerError  # noqa: PLC0415
        from tandem_operator.kube.kinds import POOL  # noqa: PLC0415

        if not self._may_watch:
            await asyncio.sleep(LOOK_EVERY_S)
            return
        with plain_errors():
            try:
                await self._kube.await_change(
                    POOL,
                    namespace=self._namespace,
                    name=self._pool,
                    since=self._version,
                    most_s=WATCH_S,
                )
            except ApiServerError as error:
                self._may_watch = error.status != 403
                await asyncio.sleep(LOOK_EVERY_S)


@asynccontextmanager
async def gather(where: Where) -> AsyncIterator[Lookout]:
    """Yield a lookout for the chosen pool.

    Raises:
        FailedError: no cluster.
    """
    async with connected(where) as (kube, namespace):
        yield Lookout(kube, namespace=namespace, pool=where.pool)


async def live_pool(kube: "Kube", namespace: str, name: str) -> Object:
    """Return the pool as stored in the cluster.

    Raises:
        FailedError: no such pool; the sentence names the existing ones.
    """
    from tandem_operator.kube.kinds import POOL  # noqa: PLC0415

    pool = await kube.get(POOL, namespace=namespace, name=name)
    if pool is None:
        there = [name_of(each) for each in await list_pools(kube, namespace)]
        known = ", ".join(sorted(there)) or await _elsewhere(kube)
        raise FailedError(
            f"no InferencePool {name} in namespace {namespace}"
            + (f"; there are {known}" if known else "")
        )
    return pool


async def live_memory(kube: "Kube", namespace: str, name: str) -> tuple[Memory | None, str | None]:
    """Return the operator's memory of a pool, or the reason why it cannot be read."""
    from tandem_operator.kube.kinds import CONFIG_MAP  # noqa: PLC0415

    return _memory(await kube.get(CONFIG_MAP, namespace=namespace, name=_memory_name(name)))


async def _elsewhere(kube: "Kube") -> str:
    """Return the pools of all namespaces as text; empty if the user may not list them."""
    from tandem_operator.kube.client import ApiServerError  # noqa: PLC0415

    try:
        found = await list_pools(kube, None)
    except (ApiServerError, FailedError):
        return ""
    return _listed(found)


def _evidence(pool: Object, events: Iterable[Object], memory: Object | None) -> Evidence:
    parsed, fault = None, None
    try:
        parsed = parse_pool(pool)
    except InvalidPoolError as error:
        fault = str(error)
    remembered, memory_fault = _memory(memory)
    metadata = pool.get("metadata") or {}
    name, uid = name_of(pool), metadata.get("uid")
    posted = [_posted(each) for each in events if _is_about(each, name, uid)]
    return Evidence(
        name=name,
        namespace=namespace_of(pool),
        pool=parsed,
        fault=fault,
        status=parse_status(pool),
        events=tuple(sorted(posted, key=lambda event: event.at)),
        memory=remembered,
        memory_fault=memory_fault,
    )


def _memory(kept: Object | None) -> tuple[Memory | None, str | None]:
    text = None if kept is None else (kept.get("data") or {}).get(MEMORY_KEY)
    if text is None:
        return None, None
    try:
        return memory_from_json(text), None
    except MemoryFormatError as error:
        return None, str(error)


def _is_about(event: Object, name: str, uid: str | None) -> bool:
    about = event.get("regarding") or event.get("involvedObject") or {}
    same = uid is None or about.get("uid") in (None, "", uid)
    ours = is_pool({**about, "apiVersion": about.get("apiVersion") or API_VERSION})
    return bool(ours and about.get("name") == name and same)


def _posted(event: Object) -> PostedEvent:
    """Return an Event of either API group."""
    times = (event.get("eventTime"), event.get("lastTimestamp"), event.get("firstTimestamp"))
    created = (event.get("metadata") or {}).get("creationTimestamp")
    at = next((str(each) for each in (*times, created) if each), "")
    return PostedEvent(
        at=at,
        reason=str(event.get("reason") or ""),
        message=str(event.get("note") or event.get("message") or ""),
        warning=event.get("type") == "Warning",
    )


def _listed(pools: Iterable[Object]) -> str:
    return ", ".join(sorted(f"{namespace_of(each)}/{name_of(each)}" for each in pools))


def _is_in(obj: Object, namespace: str) -> bool:
    """Return whether an object is in that namespace, or names none."""
    named = (obj.get("metadata") or {}).get("namespace")
    return named in (None, "", namespace)


def _memory_name(pool: str) -> str:
    return PoolName(namespace="", name=pool, uid="").memory
