"""The options of traffic; an option that would change nothing is refused."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from tandem_operator.cli.command_errors import BadInputError
from tandem_operator.cli.input.live import Live
from tandem_operator.cli.input.recording import KEPT_S, since_of
from tandem_operator.cli.input.traffic import LEVEL, Made, RecordedTraffic, Shape, times, trace_of
from tandem_operator.cli.units import duration, seconds
from tandem_operator.sim.traces.readers import TraceFormat
from tandem_operator.sim.traces.trace import Trace, classed, resampled, tenanted

TRAFFIC = "Traffic"
USUAL_SPAN_S = 1200.0
USUAL_RATE_RPS = 10.0
USUAL_PEAK = 3.0
USUAL_PROMPT_TOKENS = 1500.0
USUAL_OUTPUT_TOKENS = 200.0
USUAL_SIGMA = 0.6
USUAL_SILENCE_S = 600.0
USUAL_SPIKE_S = 30.0

# The shapes that each option of generated traffic changes.
USED_BY = {
    "--rate": tuple(Shape),
    "--peak": tuple(shape for shape in Shape if shape not in LEVEL),
    "--period": (Shape.SINE, Shape.DAY, Shape.MMPP, Shape.SPIKES),
    "--at": (Shape.BURST, Shape.STEP, Shape.RAMP, Shape.SHIFT),
    "--for": (Shape.BURST, Shape.RAMP, Shape.MMPP, Shape.SPIKES),
    "--prompt-tokens": tuple(Shape),
    "--output-tokens": tuple(Shape),
    "--then-prompt-tokens": (Shape.SHIFT,),
    "--then-output-tokens": (Shape.SHIFT,),
    "--length-sigma": tuple(Shape),
}


@dataclass(frozen=True, slots=True)
class TrafficOptions:
    """The traffic of a pool's users: a recorded trace, or a generated one."""

    trace: Annotated[
        Path | None,
        typer.Option(help="Recorded requests to replay.", rich_help_panel=TRAFFIC),
    ] = None
    form: Annotated[
        TraceFormat | None,
        typer.Option(
            "--format",
            help="Format of the trace; read from its first line if left out.",
            rich_help_panel=TRAFFIC,
            show_default=False,
        ),
    ] = None
    rate_scale: Annotated[
        float | None,
        typer.Option(
            help="Factor on the trace's load, by copies of its requests.",
            rich_help_panel=TRAFFIC,
            show_default=False,
        ),
    ] = None
    generate: Annotated[
        Shape | None,
        typer.Option(help="Generate traffic of this shape instead.", rich_help_panel=TRAFFIC),
    ] = None
    rate: Annotated[
        float | None,
        typer.Option(
            help=f"Requests per second; the least of a shape; {USUAL_RATE_RPS:g} if left out.",
            rich_help_panel=TRAFFIC,
            show_default=False,
        ),
    ] = None
    peak: Annotated[
        float | None,
        typer.Option(
            help="Highest rate of a shape in requests per second; 3 x --rate if left out.",
            rich_help_panel=TRAFFIC,
            show_default=False,
        ),
    ] = None
    span: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="The length of the traffic. If left out: 20m if generated, the whole trace if"
            " recorded, the last 20m of --pool.",
            rich_help_panel=TRAFFIC,
            show_default=False,
        ),
    ] = None
    period: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Length of a sine's wave, of a day, of mmpp's calm, or the longest silence between"
            " spikes; the span if left out (mmpp: a fifth; spikes: 10m).",
            rich_help_panel=TRAFFIC,
            show_default=False,
        ),
    ] = None
    at: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="When a burst, step, ramp or shift begins; a third into the span if left out.",
            rich_help_panel=TRAFFIC,
            show_default=False,
        ),
    ] = None
    lasting: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="DURATION",
            help="The length of a burst, a ramp, mmpp's rush or the longest spike; a sixth of the"
            " span if left out (spikes: 30s).",
            rich_help_panel=TRAFFIC,
            show_default=False,
        ),
    ] = None
    prompt_tokens: Annotated[
        float | None,
        typer.Option(
            help=f"Median tokens of a generated prompt; {USUAL_PROMPT_TOKENS:g} if left out.",
            rich_help_panel=TRAFFIC,
            show_default=False,
        ),
    ] = None
    output_tokens: Annotated[
        float | None,
        typer.Option(
            help=f"Median tokens of a generated answer; {USUAL_OUTPUT_TOKENS:g} if left out.",
            rich_help_panel=TRAFFIC,
            show_default=False,
        ),
    ] = None
    then_prompt_tokens: Annotated[
        float | None,
        typer.Option(
            help="Median tokens of a prompt after a shift; as before if left out.",
            rich_help_panel=TRAFFIC,
            show_default=False,
        ),
    ] = None
    then_output_tokens: Annotated[
        float | None,
        typer.Option(
            help="Median tokens of an answer after a shift; as before if left out.",
            rich_help_panel=TRAFFIC,
            show_default=False,
        ),
    ] = None
    length_sigma: Annotated[
        float | None,
        typer.Option(
            help="Spread of generated lengths, as a lognormal's sigma, 0 for none;"
            f" {USUAL_SIGMA:g} if left out.",
            rich_help_panel=TRAFFIC,
            show_default=False,
        ),
    ] = None
    slo_class: Annotated[
        list[str] | None,
        typer.Option(
            "--class",
            help="Share of the requests in a class of the pool, such as batch=0.5;"
            " may be given for several classes.",
            rich_help_panel=TRAFFIC,
            show_default=False,
        ),
    ] = None
    tenant: Annotated[
        list[str] | None,
        typer.Option(
            help="Share of the requests of a tenant, such as search=0.2;"
            " may be given for several tenants.",
            rich_help_panel=TRAFFIC,
            show_default=False,
        ),
    ] = None
    seed: Annotated[
        int,
        typer.Option(help="The same seed gives the same run.", rich_help_panel=TRAFFIC),
    ] = 1

    @property
    def live_s(self) -> float | None:
        """Return the wanted length of a live pool's past; `None` if the options name other traffic.

        Raises:
            BadInputError: more than routers keep.
        """
        if self.trace is not None or self.generate is not None:
            return None
        return KEPT_S if self.span is None else since_of("--span", self.span)

    def requests(self, live: Live | None = None) -> Trace:
        """The requests that these options ask for, with the classes and tenants that they name.

        Raises:
            BadInputError: options that make no sense together, or a broken trace.
        """
        of_classes = shares(self.slo_class or (), option="--class", example="batch=0.5")
        of_tenants = shares(self.tenant or (), option="--tenant", example="search=0.2")
        trace = classed(self._requests(live), of_classes, seed=self.seed)
        return tenanted(trace, of_tenants, seed=self.seed)

    def _requests(self, live: Live | None) -> Trace:
        """Return the requests without classes: those of `live` if the options name none.

        Raises:
            BadInputError: options that make no sense together, or a broken trace.
        """
        if self.trace is not None and self.generate is not None:
            raise BadInputError(
                "traffic comes from either --trace FILE or --generate SHAPE; both were given"
            )
        recording = None if live is None else live.recording
        if self.trace is None and self.generate is None and recording is None:
            raise BadInputError(
                "traffic comes from either --trace FILE or --generate SHAPE, or from a live pool"
                " with --pool NAME; neither was given"
            )
        self._refuse_idle()
        if self.generate is None and recording is not None:
            trace = recording.recorded.trace
            scale = self.rate_scale
            return trace if scale is None else times(trace, scale, seed=self.seed)
        span_s = None if self.span is None else seconds("--span", self.span)
        if self.trace is not None:
            recorded = RecordedTraffic(self.trace, self.form, _or(self.rate_scale, 1.0), span_s)
            return trace_of(recorded, seed=self.seed)
        shape = self.generate or Shape.POISSON
        return trace_of(self._made(shape, span_s or USUAL_SPAN_S), seed=self.seed)

    def several(self, count: int, live: Live | None = None) -> list[Trace]:
        """Return traffics of this kind: from other seeds, or resampled if it is recorded."""
        first = self.requests(live)
        seeds = [self.seed + number for number in range(1, count)]
        if self.generate is None:
            return [first, *(resampled(first, seed=seed) for seed in seeds)]
        return [first, *(replace(self, seed=seed).requests(live) for seed in seeds)]

    def _refuse_idle(self) -> None:
        """Refuse options that would change nothing."""
        given = {
            "--rate": self.rate,
            "--peak": self.peak,
            "--period": self.period,
            "--at": self.at,
            "--for": self.lasting,
            "--prompt-tokens": self.prompt_tokens,
            "--output-tokens": self.output_tokens,
            "--then-prompt-tokens": self.then_prompt_tokens,
            "--then-output-tokens": self.then_output_tokens,
            "--length-sigma": self.length_sigma,
        }
        if self.generate is not None:
            for option, scale_or_form in {
                "--rate-scale": self.rate_scale,
                "--format": self.form,
            }.items():
                if scale_or_form is not None:
                    raise BadInputError(f"{option} is for --trace; leave it out with --generate")
        elif self.trace is None and self.form is not None:
            raise BadInputError("--format is for --trace; leave it out with --pool")
        for option, value in given.items():
            if value is None:
                continue
            if self.generate is None:
                source = "--pool" if self.trace is None else "--trace"
                instead = "; --rate-scale 2 doubles a trace" if option == "--rate" else ""
                raise BadInputError(
                    f"{option} is for --generate; leave it out with {source}{instead}"
                )
            if self.generate not in USED_BY[option]:
                raise BadInputError(
                    f"{option} changes nothing of {self.generate}; leave it out, or take"
                    f" --generate {USED_BY[option][0]}"
                )

    def _made(self, shape: Shape, span_s: float) -> Made:
        usual_period_s, usual_for_s = {
            Shape.MMPP: (span_s / 5.0, span_s / 6.0),
            Shape.SPIKES: (USUAL_SILENCE_S, USUAL_SPIKE_S),
        }.get(shape, (span_s, span_s / 6.0))
        prompt_tokens = _or(self.prompt_tokens, USUAL_PROMPT_TOKENS)
        output_tokens = _or(self.output_tokens, USUAL_OUTPUT_TOKENS)
        rate_rps = _or(self.rate, USUAL_RATE_RPS)
        at_s = span_s / 3.0 if self.at is None else seconds("--at", self.at, positive=False)
        if at_s >= span_s:
            raise BadInputError(
                f"--at must be before the end of the traffic, {duration(span_s)} by --span, such as"
                f" {duration(span_s / 3.0)}; got {self.at!r}"
            )
        return Made(
            shape=shape,
            rate_rps=rate_rps,
            peak_rps=_or(self.peak, USUAL_PEAK * rate_rps),
            span_s=span_s,
            period_s=usual_period_s if self.period is None else seconds("--period", self.period),
            at_s=at_s,
            for_s=usual_for_s if self.lasting is None else seconds("--for", self.lasting),
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
            then_prompt_tokens=_or(self.then_prompt_tokens, prompt_tokens),
            then_output_tokens=_or(self.then_output_tokens, output_tokens),
            sigma=_or(self.length_sigma, USUAL_SIGMA),
        )


def shares(given: Sequence[str], *, option: str, example: str) -> dict[str, float]:
    """The shares of classes, or of tenants, by name.

    Raises:
        BadInputError: a text is not a share, or the shares exceed all requests.
    """
    found: dict[str, float] = {}
    for text in given:
        name, _, number = text.partition("=")
        try:
            found[name] = float(number)
        except ValueError:
            found[name] = -1.0
        if not name or not 0.0 <= found[name] <= 1.0:
            raise BadInputError(
                f"{option} must be a name and a share from 0 to 1, such as {example}; got {text}"
            )
    if sum(found.values()) > 1.0 + 1e-9:
        raise BadInputError(
            f"{option} shares must add up to at most 1; write for example {example}"
        )
    return found


def _or(given: float | None, usual: float) -> float:
    return usual if given is None else given


SeedsOption = Annotated[
    int,
    typer.Option(
        "--seeds",
        min=1,
        max=100,
        help="Samples of traffic to run, for intervals: generated traffic is drawn again,"
        " recorded traffic is resampled.",
        rich_help_panel=TRAFFIC,
    ),
]
