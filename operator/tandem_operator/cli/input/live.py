"""A live pool in place of files: its spec, its recent traffic, its learned engine models."""

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from tandem_operator.api import InferencePool, parse_pool
from tandem_operator.cli.command_errors import BadInputError, FailedError
from tandem_operator.cli.input.cluster_access import (
    CLUSTER,
    ClusterOptions,
    Where,
    connected,
    plain_errors,
)
from tandem_operator.cli.input.manifest import read_pool
from tandem_operator.cli.input.pool_completion import pool_names
from tandem_operator.cli.input.pool_evidence import live_memory, live_pool
from tandem_operator.cli.input.recording import OnProgress, Recording, record_pool
from tandem_operator.core.memory import Memory
from tandem_operator.sim.engines.learned_profile import NotLearnedError, learned_profile, origins
from tandem_operator.workloads.pool_spec import policy_of

LivePoolOption = Annotated[
    str | None,
    typer.Option(
        "--pool",
        metavar="POOL",
        help="A pool of a cluster, as the source of everything left out: its spec, its traffic of"
        " the last 20 minutes, and its learned engine models.",
        rich_help_panel=CLUSTER,
        show_default=False,
        autocompletion=pool_names,
    ),
]


@dataclass(frozen=True, slots=True)
class Live:
    """A pool as stored in its cluster.

    Attributes:
        recording: its traffic, if the command needs it.
    """

    name: str
    pool: InferencePool
    memory: Memory | None = field(repr=False)
    memory_fault: str | None
    recording: Recording | None

    @property
    def notes(self) -> tuple[str, ...]:
        """Return facts about its traffic that the figures do not show, in sentences."""
        return () if self.recording is None else self.recording.notes

    def profile(self) -> dict[str, Any]:
        """Return its learned engine models as the document of a profile file.

        Raises:
            FailedError: too little was learned.
        """
        if self.memory is None:
            why = self.memory_fault or "the operator has stored nothing yet"
            raise FailedError(f"{self.name} has no learned profile: {why}")
        spec = policy_of(self.pool.spec)
        try:
            return learned_profile(
                self.memory,
                pool=self.name,
                max_model_len=spec.max_model_len,
                max_num_seqs=spec.max_num_seqs,
            )
        except NotLearnedError as error:
            raise FailedError(str(error)) from None


def profile_text(document: dict[str, Any]) -> str:
    """Return the document as text for a file."""
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def notes_on_learned(document: dict[str, Any]) -> list[str]:
    """Return the sources of a learned profile, in sentences."""
    return [f"learned profile: {name}: {words}." for name, words in origins(document)]


def read_live(where: Where, *, traffic_s: float | None, on_progress: OnProgress) -> Live:
    """Return the pool, with its traffic of the last `traffic_s` seconds unless that is `None`.

    Raises:
        FailedError: no such pool, no right to read it, or no traffic.
    """
    return asyncio.run(_read(where, traffic_s=traffic_s, on_progress=on_progress))


async def _read(where: Where, *, traffic_s: float | None, on_progress: OnProgress) -> Live:
    async with connected(where) as (kube, namespace):
        with plain_errors():
            pool = parse_pool(await live_pool(kube, namespace, where.pool))
            memory, fault = await live_memory(kube, namespace, where.pool)
            recording = None
            if traffic_s is not None:
                recording = await record_pool(
                    kube,
                    namespace=namespace,
                    pool=where.pool,
                    since_s=traffic_s,
                    now_s=time.time(),
                    on_progress=on_progress,
                )
    return Live(f"{namespace}/{where.pool}", pool, memory, fault, recording)


def pool_in(filename: Path | None, live: Live | None) -> InferencePool:
    """Return the pool in a manifest, or the live one if no manifest is named.

    Raises:
        BadInputError: neither is named, or the manifest makes no sense.
    """
    if filename is not None:
        return read_pool(filename)
    if live is None:
        raise BadInputError("name a manifest with -f pool.yaml, or a live pool with --pool NAME")
    return live.pool


def live_of(
    name: str | None,
    cluster: ClusterOptions,
    *,
    traffic_s: float | None,
    steps: Callable[[str], Any],
) -> Live | None:
    """Return the pool that `--pool` names; `None` if it names none.

    Raises:
        BadInputError: options give the place of a pool, but no pool is named.
        FailedError: it cannot be read.
    """
    if name is None:
        if cluster.given is not None:
            raise BadInputError(f"{cluster.given} says where --pool is; add --pool NAME")
        return None
    with steps(f"reading {name}") as on_progress:
        return read_live(cluster.where(name), traffic_s=traffic_s, on_progress=on_progress)
