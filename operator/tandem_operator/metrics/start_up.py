"""Parsing what an engine's launcher tells on `/info` of its measurements, model and hardware."""

from typing import Annotated, TypeVar

from pydantic import Field, FiniteFloat, TypeAdapter, ValidationError

from tandem_operator.core.observation import Hardware, ModelShape, StartUp
from tandem_operator.metrics.lenient import Lenient, parse_bounded

MOST_POINTS = 100

Size = Annotated[int, Field(ge=1, le=10**9)]
Seconds = Annotated[FiniteFloat, Field(gt=0)]
Amount = Annotated[FiniteFloat, Field(gt=0, le=1e18)]


class _PrefillTime(Lenient):
    prompt_tokens: Size
    seconds: Seconds


class _StepTime(Lenient):
    batch: Size
    seconds: Seconds


class _Measured(Lenient):
    prefill: Annotated[tuple[_PrefillTime, ...], Field(max_length=MOST_POINTS)] = ()
    decode_steps: Annotated[tuple[_StepTime, ...], Field(max_length=MOST_POINTS)] = ()


class _Shape(Lenient):
    weight_bytes: Amount
    kv_bytes_per_token: Amount
    flops_per_token: Amount
    attention_flops: Amount
    compute_bits: Annotated[int, Field(ge=1, le=64)]


class _Hardware(Lenient):
    device: Annotated[str, Field(max_length=100)]
    devices: Annotated[int, Field(ge=1, le=1024)] = 1


_ANYTHING: TypeAdapter[object] = TypeAdapter(object)
_Part = TypeVar("_Part", bound=Lenient)


def parse_start_up(raw: bytes) -> StartUp:
    """What it tells, smallest first; without a part that an older launcher lacks or is nonsense."""
    try:
        info = parse_bounded(_ANYTHING, raw)
    except ValueError:
        info = None
    found = info if isinstance(info, dict) else {}
    measured = _read(_Measured, found.get("measured")) or _Measured()
    shape = _read(_Shape, found.get("shape"))
    hardware = _read(_Hardware, found)
    return StartUp(
        prefill=tuple(
            sorted((float(each.prompt_tokens), each.seconds) for each in measured.prefill)
        ),
        steps=tuple(sorted((float(each.batch), each.seconds) for each in measured.decode_steps)),
        shape=ModelShape(**shape.model_dump()) if shape else None,
        hardware=Hardware(**hardware.model_dump()) if hardware else None,
    )


def _read(part: type[_Part], value: object) -> _Part | None:
    try:
        return part.model_validate(value)
    except ValidationError:
        return None
