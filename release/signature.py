"""Signatures of a release, where a key is given: cosign signs, no key is ever made here."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from e2e.cluster.progress import run, say, step
from release.images import Published
from release.order import Order

_KEY = "COSIGN_KEY"


def sign(
    order: Order,
    *,
    published: Iterable[Published],
    sums: Path,
    environment: Mapping[str, str] = os.environ,
) -> None:
    """Sign the checksums, and what was pushed; else say why nothing is signed."""
    cosign = shutil.which("cosign", path=environment.get("PATH"))
    if problem := unsigned_because(cosign, environment.get(_KEY)):
        say(problem)
        return
    own = [cosign or "", "--key", environment[_KEY], "--yes"]
    with step("signatures", "signing with cosign"):
        signature = sums.with_name(f"{sums.name}.sig")
        run([own[0], "sign-blob", *own[1:], "--output-signature", signature, sums])
        for one in published if order.push else ():
            run([own[0], "sign", *own[1:], one.reference])


def unsigned_because(cosign: str | None, key: str | None) -> str | None:
    """Why nothing is signed, in one sentence, or nothing."""
    if not key:
        return f"signatures: none, since {_KEY} is not set; set it to a key that cosign can use"
    if not cosign:
        return f"signatures: none, since cosign is not on the PATH to use {_KEY}"
    return None
