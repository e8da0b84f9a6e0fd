"""The expected cost of an engine: its model's arithmetic and memory traffic on its GPU.

Weights and cache are read as fast as memory allows, and tokens computed as fast as arithmetic
allows. These are the bounds of the roofline model (Williams, Waterman, Patterson, CACM 52(4),
2009). That model takes the larger bound; here they are added, because the core's laws are sums. How
near engines come to each bound was fitted to the shipped profiles.
"""

from dataclasses import dataclass

from tandem_operator.core.learn.least_squares import Triple
from tandem_operator.core.observation import Hardware, ModelShape
from tandem_operator.core.tuning.tuning import TUNING, Tuning


@dataclass(frozen=True, slots=True)
class DataSheet:
    """One GPU's peaks: memory bytes per second, dense operations per second on 16 and 8 bits."""

    name: str
    bytes_per_s: float
    flops_16_per_s: float
    flops_8_per_s: float


@dataclass(frozen=True, slots=True)
class Prior:
    """The expected cost of an engine before measurements.

    Attributes:
        service: prefill seconds per request, per token, and per token and token of context.
        step: decode step seconds, per stream, and per token in the cache.
    """

    service: Triple
    step: Triple


# By words of the device's name: all must be in it; the first match counts. NVIDIA's figures without
# sparsity. GPUs before Ada and Hopper have no 8-bit floats: such weights are multiplied as 16 bits.
_DATA_SHEETS: tuple[tuple[frozenset[str], DataSheet], ...] = tuple(
    (frozenset(words.split()), DataSheet(name, tb * 1e12, tf16 * 1e12, tf8 * 1e12))
    for words, name, tb, tf16, tf8 in (
        ("H100 PCIE", "H100-PCIe", 2.0, 756.0, 1513.0),
        ("H100 NVL", "H100-NVL", 3.9, 835.0, 1671.0),
        ("H100", "H100-SXM", 3.35, 989.0, 1979.0),
        ("H200 NVL", "H200-NVL", 4.8, 835.0, 1671.0),
        ("H200", "H200-SXM", 4.8, 989.0, 1979.0),
        ("GH200", "GH200", 4.0, 989.0, 1979.0),
        ("H20", "H20", 4.0, 148.0, 296.0),
        ("H800", "H800", 3.35, 989.0, 1979.0),
        ("B200", "B200", 8.0, 2250.0, 4500.0),
        ("A100 PCIE 80GB", "A100-PCIe-80GB", 1.935, 312.0, 312.0),
        ("A100 80GB", "A100-SXM-80GB", 2.039, 312.0, 312.0),
        ("A100", "A100-40GB", 1.555, 312.0, 312.0),
        ("A800 80GB", "A800-80GB", 2.039, 312.0, 312.0),
        ("A40", "A40", 0.696, 150.0, 150.0),
        ("A30", "A30", 0.933, 165.0, 165.0),
        ("A10G", "A10G", 0.6, 70.0, 70.0),
        ("A10", "A10", 0.6, 125.0, 125.0),
        ("L40S", "L40S", 0.864, 362.0, 733.0),
        ("L40", "L40", 0.864, 181.0, 362.0),
        ("L4", "L4", 0.3, 121.0, 242.0),
        ("T4", "T4", 0.32, 65.0, 65.0),
        ("V100", "V100", 0.9, 125.0, 125.0),
    )
)


_PARTS = frozenset({"MIG", "SHARED"})


def data_sheet(device: str) -> DataSheet | None:
    """Return the data sheet of a device by its driver's name; `None` if it is not listed.

    A slice or a shared GPU has no data sheet.
    """
    words = frozenset(device.upper().replace("-", " ").split())
    if words & _PARTS:
        return None
    return next((sheet for needed, sheet in _DATA_SHEETS if needed <= words), None)


def roofline(shape: ModelShape, hardware: Hardware, *, tuning: Tuning = TUNING) -> Prior | None:
    """Return the cost of this model on this hardware; `None` if the hardware is not known."""
    sheet = data_sheet(hardware.device)
    if sheet is None:
        return None
    reached, devices = tuning.learn, hardware.devices
    shared = reached.doubling_share ** (devices.bit_length() - 1)
    bytes_per_s = sheet.bytes_per_s * devices
    peaks = {8: sheet.flops_8_per_s, 16: sheet.flops_16_per_s}
    flops_per_s = peaks.get(shape.compute_bits, 0.5 * sheet.flops_16_per_s) * devices
    weights_s = shape.weight_bytes / (reached.weights_read_share * shared * bytes_per_s)
    token_s = shape.flops_per_token / (reached.matrices_share * shared * flops_per_s)
    attention_flops_per_s = reached.attention_share * sheet.flops_16_per_s * devices
    attention_s = shape.attention_flops / attention_flops_per_s
    return Prior(
        service=(weights_s, token_s, attention_s),
        step=(
            weights_s,
            token_s,
            shape.kv_bytes_per_token / (reached.cache_read_share * bytes_per_s),
        ),
    )
