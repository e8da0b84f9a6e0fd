"""`tandem record POOL`: the traffic of a live pool as a trace, without any text of its prompts."""

import asyncio
import time
from typing import Annotated

import typer

from tandem_operator.cli.commands.command import spelled_out
from tandem_operator.cli.input.cluster_access import ClusterOptions, Where, connected, plain_errors
from tandem_operator.cli.input.options import OUTPUT
from tandem_operator.cli.input.pool_completion import pool_names
from tandem_operator.cli.input.pool_evidence import live_pool
from tandem_operator.cli.input.recording import OnProgress, Recording, record_pool, since_of
from tandem_operator.cli.output.destination import bars, check_outputs, screen, write
from tandem_operator.sim.traces.recorded import trace_lines


@spelled_out
def record(
    *,
    pool: Annotated[
        str,
        typer.Argument(
            metavar="POOL", help="Name of the InferencePool.", autocompletion=pool_names
        ),
    ],
    since: Annotated[
        str,
        typer.Option(metavar="DURATION", help="The length of the past; routers keep 20 minutes."),
    ] = "20m",
    cluster: ClusterOptions,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The file of the trace; POOL-trace.jsonl if left out, - for standard output.",
            rich_help_panel=OUTPUT,
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write a trace of the recent requests of a live pool, for simulate, plan and diff.

    The trace holds arrivals, tokens in and out, and numbers for common prefixes. No prompt or
    answer leaves the routers, and no name but those that the spec has for tenants. The command
    changes nothing. It needs the right to forward ports to pods.
    """
    target = output or f"{pool}-trace.jsonl"
    check_outputs({"-o": target}, inputs={"--kubeconfig": cluster.kubeconfig})
    since_s = since_of("--since", since)
    with bars() as shown, shown.steps("requests") as on_progress:
        found = asyncio.run(_record(cluster.where(pool), since_s=since_s, on_progress=on_progress))
    write(target, "".join(trace_lines(found.recorded.trace)))
    console = screen(target)
    for note in found.notes:
        console.print(f"note: {note}", style="yellow", soft_wrap=True)
    console.print(f"{target}: {found.summary}", soft_wrap=True)


async def _record(where: Where, *, since_s: float, on_progress: OnProgress) -> Recording:
    async with connected(where) as (kube, namespace):
        with plain_errors():
            await live_pool(kube, namespace, where.pool)
            return await record_pool(
                kube,
                namespace=namespace,
                pool=where.pool,
                since_s=since_s,
                now_s=time.time(),
                on_progress=on_progress,
            )
