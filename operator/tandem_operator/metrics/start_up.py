"""The parser of an engine's `/info`: its measurements, its model and its hardware."""

from pydantic import TypeAdapter

from tandem_contracts.engine_info import HardwareInfo, MeasuredInfo, ShapeInfo
from tandem_contracts.parts import part_of
from tandem_operator.core.observation import Hardware, ModelShape, StartUp
from tandem_operator.metrics.lenient import parse_bounded

_ANYTHING: TypeAdapter[object] = TypeAdapter(object)


def parse_start_up(raw: bytes) -> StartUp:
    """Return the measurements, smallest first; parts that are missing or invalid are left out."""
    try:
        info = parse_bounded(_ANYTHING, raw)
    except ValueError:
        info = None
    found = info if isinstance(info, dict) else {}
    measured = part_of(MeasuredInfo, found.get("measured")) or MeasuredInfo()
    shape = part_of(ShapeInfo, found.get("shape"))
    hardware = part_of(HardwareInfo, found)
    return StartUp(
        prefill=tuple(
            sorted((float(each.prompt_tokens), each.seconds) for each in measured.prefill)
        ),
        steps=tuple(sorted((float(each.batch), each.seconds) for each in measured.decode_steps)),
        shape=ModelShape(**shape.model_dump()) if shape else None,
        hardware=Hardware(hardware.device, hardware.devices)
        if hardware and hardware.device is not None
        else None,
    )
