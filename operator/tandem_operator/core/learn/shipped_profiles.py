"""The profiles that ship with Tandem, as the two laws that fit them best.

`python -m benchmarks.priors --table` makes the rows from the measured tables.
"""

from dataclasses import astuple, dataclass

from tandem_operator.core.learn.roofline import Prior, data_sheet
from tandem_operator.core.observation import Hardware, ModelShape
from tandem_operator.core.tuning.tuning import TUNING, Tuning


@dataclass(frozen=True, slots=True)
class Shipped:
    """One profile: its model, its number of devices, their data sheet, and its cost."""

    name: str
    device: str
    devices: int
    shape: ModelShape
    prior: Prior


def profiled(shape: ModelShape, hardware: Hardware, *, tuning: Tuning = TUNING) -> Prior | None:
    """Return the laws of the profile for this shape and hardware; `None` without one."""
    sheet = data_sheet(hardware.device)
    if sheet is None:
        return None
    return next(
        (
            each.prior
            for each in SHIPPED
            if (each.device, each.devices) == (sheet.name, hardware.devices)
            and _alike(each.shape, shape, tuning=tuning)
        ),
        None,
    )


def _alike(a: ModelShape, b: ModelShape, *, tuning: Tuning = TUNING) -> bool:
    pairs = zip(astuple(a), astuple(b), strict=True)
    return all(abs(x - y) <= tuning.learn.same_shape_share * x for x, y in pairs)


SHIPPED: tuple[Shipped, ...] = tuple(
    Shipped(name, device, devices, ModelShape(*shape), Prior(service, step))
    for name, device, devices, shape, service, step in (
        (
            "h200-llama-3.1-8b-fp8",
            "H200-SXM",
            1,
            (8.03e09, 131072, 1.39586e10, 524288, 8),
            (0.01813, 1.47e-05, 8.541e-10),
            (0.00432, 4.308e-05, 2.823e-08),
        ),
        (
            "h100-llama-3.1-8b",
            "H100-SXM",
            1,
            (1.50093e10, 131072, 1.39586e10, 524288, 16),
            (0.01476, 1.905e-05, 1.407e-09),
            (0.00636, 1.44e-05, 3.595e-08),
        ),
        (
            "h100-llama-3.1-8b-tp1",
            "H100-SXM",
            1,
            (1.50093e10, 131072, 1.39586e10, 524288, 16),
            (0.004677, 1.635e-05, 1.221e-09),
            (0.006343, 1.326e-05, 4.012e-08),
        ),
        (
            "h100-qwen3-32b-tp1",
            "H100-SXM",
            1,
            (6.39671e10, 262144, 6.24112e10, 2.09715e06, 16),
            (0.01745, 7.108e-05, 5.744e-09),
            (0.02674, 3.648e-05, 8.152e-08),
        ),
        (
            "h100-qwen3-32b-tp2",
            "H100-SXM",
            2,
            (6.39671e10, 262144, 6.24112e10, 2.09715e06, 16),
            (0.01169, 4.066e-05, 2.831e-09),
            (0.01517, 2.826e-05, 4.155e-08),
        ),
        (
            "h100-qwen3-32b-tp4",
            "H100-SXM",
            4,
            (6.39671e10, 262144, 6.24112e10, 2.09715e06, 16),
            (0.008933, 2.549e-05, 1.297e-09),
            (0.009918, 2.088e-05, 2.112e-08),
        ),
        (
            "h100-llama-3.1-70b-tp4",
            "H100-SXM",
            4,
            (1.39003e11, 327680, 1.36902e11, 2.62144e06, 16),
            (0.01182, 5.181e-05, 2.444e-09),
            (0.01507, 3.419e-05, 2.599e-08),
        ),
        (
            "h100-llama-3.1-70b-tp8",
            "H100-SXM",
            8,
            (1.39003e11, 327680, 1.36902e11, 2.62144e06, 16),
            (0.008732, 3.453e-05, 9.685e-10),
            (0.009856, 2.451e-05, 1.369e-08),
        ),
        (
            "h200-llama-3.1-8b-tp1",
            "H200-SXM",
            1,
            (1.50093e10, 131072, 1.39586e10, 524288, 16),
            (0.003355, 1.686e-05, 1.24e-09),
            (0.004906, 1.266e-05, 2.863e-08),
        ),
        (
            "h200-qwen3-32b-tp1",
            "H200-SXM",
            1,
            (6.39671e10, 262144, 6.24112e10, 2.09715e06, 16),
            (0.01179, 7.449e-05, 4.736e-09),
            (0.02062, 3.755e-05, 5.729e-08),
        ),
        (
            "h200-qwen3-32b-tp2",
            "H200-SXM",
            2,
            (6.39671e10, 262144, 6.24112e10, 2.09715e06, 16),
            (0.009058, 4.121e-05, 2.812e-09),
            (0.01237, 2.708e-05, 2.797e-08),
        ),
        (
            "h200-qwen3-32b-tp4",
            "H200-SXM",
            4,
            (6.39671e10, 262144, 6.24112e10, 2.09715e06, 16),
            (0.007572, 2.555e-05, 1.26e-09),
            (0.008549, 1.989e-05, 1.47e-08),
        ),
        (
            "h200-llama-3.1-70b-tp4",
            "H200-SXM",
            4,
            (1.39003e11, 327680, 1.36902e11, 2.62144e06, 16),
            (0.009091, 5.18e-05, 2.782e-09),
            (0.01211, 3.401e-05, 1.731e-08),
        ),
        (
            "h200-llama-3.1-70b-tp8",
            "H200-SXM",
            8,
            (1.39003e11, 327680, 1.36902e11, 2.62144e06, 16),
            (0.007416, 3.32e-05, 1.226e-09),
            (0.008101, 2.534e-05, 9.901e-09),
        ),
    )
)
