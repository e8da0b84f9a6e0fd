"""The options on engines and outputs that several commands share."""

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from tandem_operator.api import InferencePool
from tandem_operator.cli.command_errors import BadInputError
from tandem_operator.cli.input.case import (
    Case,
    at_begin,
    check_fleet,
    fitted_start,
    notes_on,
    router_of,
    smallest,
    spec_of,
)
from tandem_operator.cli.input.live import Live, notes_on_learned, profile_text
from tandem_operator.cli.input.profiles import (
    Engines,
    engines_in,
    engines_of,
    file_of,
    names_with,
    note_on,
)
from tandem_operator.cli.input.simulated_hours import (
    moment,
    notes_on_hours,
    simulated_periods,
)
from tandem_operator.cli.input.simulated_tenants import notes_on_tenants, serving, within_limits
from tandem_operator.cli.units import fleet, seconds
from tandem_operator.core.spec import PoolSpec
from tandem_operator.sim.cluster.pods import ColdStart
from tandem_operator.sim.engines.profile_files import MOST_SIGMA
from tandem_operator.sim.traces.trace import Trace

ENGINES = "Engines and cluster"
OUTPUT = "Output"
USUAL_COLD_START = ColdStart(60.0, 0.1)


@dataclasses.dataclass(frozen=True, slots=True)
class EngineOptions:
    """The engines, how long they take to start, and the price of a GPU."""

    profile: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="The speed of one replica: a shipped profile, such as h200-llama-3.1-8b-fp8, or a"
            " JSON file (FILE#TABLE of several). If left out, the learned models of --pool.",
            rich_help_panel=ENGINES,
            show_default=False,
            autocompletion=names_with,
        ),
    ] = None
    kv_tokens: Annotated[
        int | None,
        typer.Option(
            help="Tokens that one replica's KV cache holds, if not those of the profile.",
            rich_help_panel=ENGINES,
            show_default=False,
        ),
    ] = None
    kv_gb_per_s: Annotated[
        float | None,
        typer.Option(
            help="Speed of KV transfer between two pods, in GB/s: about 2.6 over TCP without RDMA;"
            " no transfer time if left out.",
            rich_help_panel=ENGINES,
            show_default=False,
        ),
    ] = None
    cold_start: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="From a new pod to Ready, the median; as the profile says, or else 60s, if left"
            " out.",
            rich_help_panel=ENGINES,
            show_default=False,
        ),
    ] = None
    cold_start_sigma: Annotated[
        float | None,
        typer.Option(
            help="Spread of cold starts, as a lognormal's sigma; as the profile says, or else 0.1,"
            " if left out.",
            rich_help_panel=ENGINES,
            show_default=False,
        ),
    ] = None
    start: Annotated[
        str,
        typer.Option(
            metavar="fitted|min|5P3D",
            help="The fleet at the start: one that fits the first minute, that of minReplicas,"
            " or this one.",
            rich_help_panel=ENGINES,
        ),
    ] = "fitted"
    begin: Annotated[
        str | None,
        typer.Option(
            metavar="MOMENT",
            help="Start of simulated time, for scaling.schedules, such as"
            " 2026-11-30T08:00+01:00; Monday, 2024-01-01T00:00 UTC if left out.",
            rich_help_panel=ENGINES,
            show_default=False,
        ),
    ] = None
    gpu_hour_price: Annotated[
        float | None,
        typer.Option(
            help="Price of one GPU for one hour; then costs are shown. Without it:"
            " cost.perGPUHour of the manifest.",
            rich_help_panel=ENGINES,
            show_default=False,
        ),
    ] = None

    @property
    def profile_file(self) -> str | None:
        """Return the file that `--profile` names, if there is one."""
        return None if self.profile is None else file_of(self.profile)

    def case(
        self, pool: InferencePool, trace: Trace, *, seed: int, live: Live | None = None
    ) -> Case:
        """Return the pool on these engines; without a named profile, on those that `live` learned.

        Raises:
            BadInputError: options that make no sense.
        """
        price = self.gpu_hour_price
        if price is not None and not price > 0.0:
            raise BadInputError(f"--gpu-hour-price must be above 0, such as 2.5; got {price:g}")
        if price is None and pool.spec.cost is not None:
            price = pool.spec.cost.price
        sigma = self.cold_start_sigma
        if sigma is not None and not 0.0 <= sigma <= MOST_SIGMA:
            raise BadInputError(
                f"--cold-start-sigma must be from 0 to {MOST_SIGMA:g}, such as 0.1; got {sigma:g}"
            )
        begin = moment(self.begin)
        periods = simulated_periods(pool, begin=begin, span_s=trace.span_s)
        spec = dataclasses.replace(spec_of(pool), periods=periods)
        _check_classes(trace, spec)
        router = serving(router_of(pool.spec.router), trace)
        engines, notes = self._engines(spec, live)
        profile = dataclasses.replace(engines.profile, max_num_seqs=spec.max_num_seqs)
        if self.start == "fitted":
            start = fitted_start(at_begin(spec), within_limits(trace, router), profile)
        elif self.start == "min":
            start = smallest(at_begin(spec))
        else:
            start = fleet("--start", self.start)
            check_fleet("--start", start, spec)
        return Case(
            name=pool.metadata.name,
            spec=spec,
            trace=trace,
            profile=profile,
            cold_start=self._cold_start(engines.cold_start or USUAL_COLD_START),
            start=start,
            router=router,
            prefix_caching=pool.spec.engine_of("prefill").prefix_caching,
            seed=seed,
            gpu_hour_price=price,
            differs=(
                *notes_on(pool),
                *notes_on_tenants(pool, trace),
                *notes_on_hours(pool, begin=begin),
                *(() if live is None else live.notes),
                *notes,
            ),
        )

    def _engines(self, spec: PoolSpec, live: Live | None) -> tuple[Engines, list[str]]:
        """Return the engines, and remarks about them."""
        kv_tokens, kv_gb_per_s = self.kv_tokens, self.kv_gb_per_s
        if self.profile is not None:
            named = engines_of(self.profile, kv_tokens=kv_tokens, kv_gb_per_s=kv_gb_per_s)
            return named, note_on(self.profile, spec)
        if live is None:
            raise BadInputError(
                "name engines with --profile, such as --profile h200-llama-3.1-8b-fp8, or a pool"
                " that has learned of its own with --pool"
            )
        document = live.profile()
        name = f"{live.name}, learned"
        learned = engines_in(
            profile_text(document),
            name=name,
            source=name,
            kv_tokens=kv_tokens,
            kv_gb_per_s=kv_gb_per_s,
        )
        return learned, notes_on_learned(document)

    def _cold_start(self, fitted: ColdStart) -> ColdStart:
        given, sigma = self.cold_start, self.cold_start_sigma
        return ColdStart(
            fitted.median_s if given is None else seconds("--cold-start", given, positive=False),
            fitted.sigma if sigma is None else sigma,
        )


JsonOption = Annotated[
    str | None,
    typer.Option(
        "--json",
        metavar="[FILE]",
        help="Write every figure as JSON; without FILE to standard output.",
        rich_help_panel=OUTPUT,
        show_default=False,
    ),
]
HtmlOption = Annotated[
    str | None,
    typer.Option(
        "--html",
        metavar="FILE",
        help="Write a report with plots, one file that opens offline.",
        rich_help_panel=OUTPUT,
        show_default=False,
    ),
]
PoolOption = Annotated[
    Path | None,
    typer.Option(
        "--filename",
        "-f",
        help="Manifest that holds the InferencePool; - for standard input; the spec of --pool if"
        " left out.",
        show_default=False,
    ),
]


def _check_classes(trace: Trace, spec: PoolSpec) -> None:
    """Refuse classes that the pool does not have."""
    known = [each.name for each in spec.classes]
    for name in dict.fromkeys(request.slo_class for request in trace.requests):
        if name and name not in known:
            have = f"has {', '.join(known)}" if known else "has no spec.slo.classes"
            raise BadInputError(f"--class names {name}, but the pool {have}")
