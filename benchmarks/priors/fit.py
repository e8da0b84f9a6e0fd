"""Fit the two laws of the decision core to an engine profile."""

from benchmarks.priors.models import MODELS
from tandem_operator.cli.input.profiles import profile_of, shipped
from tandem_operator.core.learn.least_squares import Sums, Triple, solve
from tandem_operator.core.learn.roofline import Prior
from tandem_operator.core.learn.shipped_profiles import Shipped
from tandem_operator.core.tuning.tuning import TUNING
from tandem_operator.sim.engines.profile import EngineProfile

PROMPTS = (128, 256, 512, 1024, 2048, 4096, 8192, 16384)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CONTEXTS = (512, 1024, 2048, 4096, 8192)
DEVICES = {"h100": "H100-SXM", "h200": "H200-SXM"}
DIGITS = 4


def fitted(name: str) -> Shipped:
    """Return the profile that ships under a name: its model, its hardware and the fitted laws."""
    profile = profile_of(name)
    system, model = name.split("-", 1)
    model, fp8 = model.removesuffix("-fp8"), model.endswith("-fp8")
    model = model.rsplit("-tp", 1)[0]
    return Shipped(
        name=name,
        device=DEVICES[system],
        devices=shipped()[name].gpus,
        shape=MODELS[model].shape(quantization="fp8" if fp8 else None),
        prior=Prior(service=_service(profile), step=_step(profile)),
    )


def decode_points(profile: EngineProfile) -> list[tuple[int, int]]:
    """Return the batches and contexts that fit its cache."""
    return [
        (batch, context)
        for batch in BATCHES
        for context in CONTEXTS
        if batch * context <= profile.kv_capacity_tokens
    ]


def _service(profile: EngineProfile) -> Triple:
    rows = [((1.0, float(u), u * u / 2.0), profile.service_s(u)) for u in PROMPTS]
    return least_relative_error(rows)


def _step(profile: EngineProfile) -> Triple:
    rows = [
        ((1.0, float(batch), float(batch * context)), profile.step_s(batch, batch * context))
        for batch, context in decode_points(profile)
    ]
    return least_relative_error(rows)


def least_relative_error(rows: list[tuple[Triple, float]]) -> Triple:
    """Return the law whose relative error over these rows is least."""
    sums = Sums()
    for (x0, x1, x2), y in rows:
        sums = sums.add((x0 / y, x1 / y, x2 / y), 1.0, weight=1.0, keep=1.0)
    # A ridge of a third of a row among dozens moves nothing.
    _, (c0, c1, c2) = solve(sums, prior=(0.0, 0.0, 0.0), prior_rows=TUNING.learn.prior_rows)
    return (_rounded(c0), _rounded(c1), _rounded(c2))


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
