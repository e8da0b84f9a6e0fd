"""Engine profiles by name: those that ship with Tandem, or a file of the user."""

import difflib
import json
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path

from tandem_operator.cli.command_errors import BadInputError
from tandem_operator.cli.input.manifest import read_text
from tandem_operator.core.spec import PoolSpec
from tandem_operator.sim.cluster.pods import ColdStart
from tandem_operator.sim.engines.profile import EngineProfile
from tandem_operator.sim.engines.profile_files import read_cold_start, read_profile

ESTIMATES = "estimates.json"
MEASURED = ("h200-llama-3.1-8b-fp8", "h100-llama-3.1-8b")


@dataclass(frozen=True, slots=True)
class ProfileFile:
    """A profile that ships with Tandem.

    Attributes:
        table: its table in the file; `None` if the file holds one profile.
        gpus: GPUs of one replica.
    """

    file: str
    table: str | None
    gpus: int


@cache
def shipped() -> dict[str, ProfileFile]:
    """Return all shipped profiles by name, the measured ones first."""
    found = {name: ProfileFile(f"{name}.json", None, gpus=1) for name in MEASURED}
    for table in json.loads(_shipped_text(ESTIMATES))["tables"]:
        model = table["model"].rsplit("/", 1)[-1]
        key = f"{table['system']}/{model}/tp{table['tp']}"
        system, short = table["system"].removesuffix("_sxm"), model.lower().removeprefix("meta-")
        name = f"{system}-{short}-tp{table['tp']}"
        found[name] = ProfileFile(ESTIMATES, key, gpus=int(table["tp"]))
    return found


@dataclass(frozen=True, slots=True)
class Engines:
    """The speed of a replica, and its start-up time if that is known."""

    profile: EngineProfile
    cold_start: ColdStart | None


def engines_of(
    name: str, *, kv_tokens: int | None = None, kv_gb_per_s: float | None = None
) -> Engines:
    """Return the profile of that name, or in the file of that name.

    A table in a file with several is named `FILE#system/model/tpN`. `kv_gb_per_s` is the speed of
    KV transfers between two pods, in 10^9 bytes per second.

    Raises:
        BadInputError: neither a shipped profile nor a file.
        ProfileError: a file that holds no profile.
    """
    known = shipped().get(name)
    if known is not None:
        text, file, table = _shipped_text(known.file), known.file, known.table
    else:
        file, table = file_of(name), name.partition("#")[2] or None
        path = Path(file)
        if not path.exists():
            raise BadInputError(_unknown(name))
        text = read_text(path)
    return engines_in(
        text, name=name, source=file, table=table, kv_tokens=kv_tokens, kv_gb_per_s=kv_gb_per_s
    )


def profile_of(name: str) -> EngineProfile:
    """Return only the profile of that name, unchanged."""
    return engines_of(name).profile


def engines_in(
    text: str,
    *,
    name: str,
    source: str,
    table: str | None = None,
    kv_tokens: int | None = None,
    kv_gb_per_s: float | None = None,
) -> Engines:
    """Return the profile in a text, changed by the options.

    Raises:
        BadInputError: an option that makes no sense.
        ProfileError: a text that holds no profile.
    """
    if kv_tokens is not None and kv_tokens < 1:
        raise BadInputError(f"--kv-tokens must be above 0, such as 900000; got {kv_tokens}")
    profile = replace(read_profile(text, source=source, table=table), name=name)
    if kv_tokens is not None:
        profile = replace(profile, kv_capacity_tokens=kv_tokens)
    if kv_gb_per_s is not None:
        profile = _over_network(profile, kv_gb_per_s)
    return Engines(profile, read_cold_start(text, source=source))


def file_of(name: str) -> str:
    """Return the file that a profile's name stands for, if it is not a shipped profile."""
    return name.partition("#")[0]


def _over_network(profile: EngineProfile, gb_per_s: float) -> EngineProfile:
    if not gb_per_s > 0.0:
        raise BadInputError(f"--kv-gb-per-s must be above 0, such as 2.6; got {gb_per_s:g}")
    if profile.kv_bytes_per_token is None:
        raise BadInputError(
            f"--kv-gb-per-s needs the KV bytes of a token; add"
            f' "kv_bytes_per_token": 131072 (of Llama-3.1-8B) to {profile.name}'
        )
    return replace(profile, transfer_s_per_token=profile.kv_bytes_per_token / (gb_per_s * 1e9))


def names_with(beginning: str) -> list[str]:
    """Return names of shipped profiles, for completion in the shell."""
    return [name for name in shipped() if name.startswith(beginning)]


def note_on(name: str, spec: PoolSpec) -> list[str]:
    """Return how a shipped profile's replicas differ from the pool's, in sentences."""
    known = shipped().get(name)
    if known is None:
        return []
    return [
        f"{name} describes replicas of {known.gpus} GPUs; those of {role} hold"
        f" {bounds.gpus_per_replica}."
        for role, bounds in spec.roles.items()
        if bounds.gpus_per_replica != known.gpus
    ]


def _unknown(name: str) -> str:
    near = names_with(name) or difflib.get_close_matches(name, shipped(), n=1, cutoff=0.5)
    meant = f"; did you mean {near[0]}?" if near else ""
    return (
        f"--profile {name!r} is neither a file nor a profile of Tandem's own{meant}"
        f" ({', '.join(shipped())})"
    )


def _shipped_text(file: str) -> str:
    return files("tandem_operator.cli").joinpath("profiles", file).read_text(encoding="utf-8")
