"""Parsing what an engine's launcher tells of its own measurements on `/info`."""

from typing import Annotated

from pydantic import Field, FiniteFloat, TypeAdapter, ValidationError

from tandem_operator.core.observation import StartUp
from tandem_operator.metrics.lenient import Lenient

Size = Annotated[int, Field(ge=1, le=10**9)]
Seconds = Annotated[FiniteFloat, Field(gt=0)]


class _PrefillTime(Lenient):
    prompt_tokens: Size
    seconds: Seconds


class _StepTime(Lenient):
    batch: Size
    seconds: Seconds


class _Measured(Lenient):
    prefill: tuple[_PrefillTime, ...] = ()
    decode_steps: tuple[_StepTime, ...] = ()


class _Info(Lenient):
    measured: _Measured | None = None


_INFO: TypeAdapter[_Info] = TypeAdapter(_Info)


def parse_start_up(raw: bytes) -> StartUp:
    """The measurements, smallest first; none of an older launcher, or where one is nonsense."""
    try:
        found = _INFO.validate_json(raw).measured or _Measured()
    except ValidationError:
        found = _Measured()
    return StartUp(
        prefill=tuple(sorted((float(each.prompt_tokens), each.seconds) for each in found.prefill)),
        steps=tuple(sorted((float(each.batch), each.seconds) for each in found.decode_steps)),
    )
