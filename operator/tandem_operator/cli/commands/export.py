"""`tandem profile export POOL`: the learned engine models of a pool, as a profile file."""

from typing import Annotated

import typer

from tandem_operator.cli.commands.command import spelled_out
from tandem_operator.cli.input.cluster_access import ClusterOptions
from tandem_operator.cli.input.live import profile_text, read_live
from tandem_operator.cli.input.options import OUTPUT
from tandem_operator.cli.input.pool_completion import pool_names
from tandem_operator.cli.output.destination import check_outputs, screen, write
from tandem_operator.sim.engines.learned_profile import origins


@spelled_out
def export(
    *,
    pool: Annotated[
        str,
        typer.Argument(
            metavar="POOL", help="Name of the InferencePool.", autocompletion=pool_names
        ),
    ],
    cluster: ClusterOptions,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The file of the profile; POOL-profile.json if left out, - for standard output.",
            rich_help_panel=OUTPUT,
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write the learned engine models of a live pool as a profile for simulate, plan and diff.

    The profile holds prefill and decode step times, KV cache, KV transfer and cold starts. It says
    whether each was learned from traffic, measured by an engine at its start, or is a first guess.
    """
    target = output or f"{pool}-profile.json"
    check_outputs({"-o": target}, inputs={"--kubeconfig": cluster.kubeconfig})
    live = read_live(cluster.where(pool), traffic_s=None, on_progress=lambda _: None)
    document = live.profile()
    write(target, profile_text(document))
    console = screen(target)
    console.print(f"{target}: {document['source']}", soft_wrap=True)
    for name, words in origins(document):
        console.print(f"  {name}: {words}", soft_wrap=True)
