"""The reader of engine profiles: a measured grid, or tables of estimates by context and batch."""

import json
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from tandem_operator.sim.cluster.pods import ColdStart
from tandem_operator.sim.engines.profile import Curve, EngineProfile, rising

MS = 1e-3
ESTIMATED_KV_TOKENS = 14_000 * 64
MOST_SIGMA = 2.0
USUAL_TRANSFER_MS, USUAL_TOKEN_TRANSFER_MS = 2.0, 5e-4


class ProfileError(ValueError):
    """A profile cannot be read; the sentence names the file and the field."""


def read_profile(text: str, *, source: str, table: str | None = None) -> EngineProfile:
    """Return the profile in the text of a JSON file named `source`.

    A file of tables holds several: `table` chooses one by `system/model/tpN`.

    Raises:
        ProfileError: not JSON, a field missing or of the wrong kind, an unknown table.
    """
    try:
        raw = json.loads(text)
    except json.JSONDecodeError as error:
        raise ProfileError(f"{source}:{error.lineno}: not JSON ({error.msg})") from None
    except (ValueError, RecursionError):
        raise ProfileError(f"{source}: a number too long or nesting too deep to read") from None
    if not isinstance(raw, dict):
        raise ProfileError(f"{source}: expected an object with `prefill` and `decode`")
    try:
        if "tables" in raw:
            return _estimated(raw["tables"], source, table)
        return _measured(raw, source)
    except KeyError as error:
        raise ProfileError(f"{source}: lacks the field {error}") from None
    except (ArithmeticError, AttributeError, IndexError, TypeError, ValueError) as error:
        if isinstance(error, ProfileError):
            raise
        raise ProfileError(f"{source}: {error}") from None


def _measured(raw: Mapping[str, Any], source: str) -> EngineProfile:
    prefill, decode = raw["prefill"], raw["decode"]
    capacity = int(decode["max_kv_tokens"][0])
    rows: dict[float, list[tuple[float, float]]] = {}
    columns = (decode["x_kv_usage"], decode["y_context_length"], decode["z_itl"])
    for usage, context, itl_ms in zip(*columns, strict=True):
        batch = usage * capacity / context
        rows.setdefault(float(context), []).append((batch, _seconds(itl_ms, "z_itl")))
    return EngineProfile(
        name=source,
        prefill=_curve(
            dict(zip(prefill["prefill_isl"], prefill["prefill_ttft"], strict=True)), "prefill_ttft"
        ),
        steps=tuple((context, rising(rows[context])) for context in sorted(rows)),
        kv_capacity_tokens=capacity,
        kv_bytes_per_token=_kv_bytes(raw),
        transfer_s=_transfer_s(raw, "transfer_ms", USUAL_TRANSFER_MS),
        transfer_s_per_token=_transfer_s(raw, "transfer_ms_per_token", USUAL_TOKEN_TRANSFER_MS),
    )


def _transfer_s(raw: Mapping[str, Any], name: str, usual_ms: float) -> float:
    return MS * (usual_ms if raw.get(name) is None else _not_negative(raw, name))


def read_cold_start(text: str, *, source: str) -> ColdStart | None:
    """Return the start-up time of pods with these engines, if the profile's file has it."""
    raw = json.loads(text)
    table = raw.get("cold_start") if isinstance(raw, dict) else None
    if table is None:
        return None
    try:
        found = ColdStart(_not_negative(table, "median_s"), _not_negative(table, "sigma"))
    except (AttributeError, KeyError, TypeError, ValueError):
        found = None
    if found is None or found.sigma > MOST_SIGMA:
        raise ProfileError(f'{source}: cold_start must be like {{"median_s": 60.0, "sigma": 0.1}}')
    return found


def _not_negative(raw: Mapping[str, Any], name: str) -> float:
    value = float(raw[name])
    if not 0.0 <= value < inf:
        raise ValueError(f"{name} must be at least 0; got {value:g}")
    return value


def _curve(ms_by_x: Mapping[Any, float], field: str) -> Curve:
    return rising([(float(x), _seconds(ms, field)) for x, ms in ms_by_x.items()])


def _seconds(ms: float, field: str) -> float:
    if not 0.0 < float(ms) < inf:
        raise ValueError(f"{field} must be of milliseconds above 0; got {ms}")
    return ms * MS


def _estimated(
    tables: Sequence[Mapping[str, Any]], source: str, wanted: str | None
) -> EngineProfile:
    names = [f"{t['system']}/{t['model'].rsplit('/', 1)[-1]}/tp{t['tp']}" for t in tables]
    if not names:
        raise ProfileError(f"{source}: holds no table; expected one for each kind of engine")
    if wanted is None:
        raise ProfileError(
            f"{source}: holds {len(names)} tables; pick one, such as {source}#{names[0]}"
        )
    if wanted not in names:
        raise ProfileError(f"{source}: no table {wanted!r}; one of {', '.join(names)}")
    found = tables[names.index(wanted)]
    steps = sorted(
        (float(context), _curve(row, "decode_itl_ms"))
        for context, row in found["decode_itl_ms"].items()
    )
    return EngineProfile(
        name=wanted,
        prefill=_curve(found["prefill_ms"], "prefill_ms"),
        steps=tuple(steps),
        kv_capacity_tokens=ESTIMATED_KV_TOKENS,
        kv_bytes_per_token=_kv_bytes(found),
        attention_s_per_token2=_attention_s(found),
    )


def _attention_s(raw: Mapping[str, Any]) -> float | None:
    given = raw.get("prefill_attention_ms_per_token2")
    if given is None:
        return None
    if not 0.0 <= float(given) < float("inf"):
        raise ValueError(f"prefill_attention_ms_per_token2 must be at least 0; got {given}")
    return float(given) * MS


def _kv_bytes(raw: Mapping[str, Any]) -> float | None:
    given = raw.get("kv_bytes_per_token")
    if given is None:
        return None
    if not float(given) > 0.0:
        raise ValueError(f"kv_bytes_per_token must be above 0, such as 131072; got {given}")
    return float(given)
