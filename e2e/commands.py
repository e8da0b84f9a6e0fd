"""kubectl and helm against our own cluster, and never against the user's current context."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from e2e.cluster import names


class CommandError(Exception):
    """A command failed; the text is its output."""


def program(name: str) -> str:
    """Return the path of a tool: that of `make cluster-up` in the cache, else the user's own."""
    path = os.pathsep.join([str(names.bin_dir()), os.environ.get("PATH", "")])
    found = shutil.which(name, path=path)
    if found is None:
        raise CommandError(f"{name} is not installed; `make cluster-up` gets it")
    return found


def kubectl(*words: str, stdin: str | None = None, timeout_s: float = 120.0) -> str:
    """Run kubectl and return what it prints."""
    return _run(["kubectl", *words], stdin=stdin, timeout_s=timeout_s)


def kubectl_json(*words: str) -> dict[str, Any]:
    """Run a kubectl command that can print JSON and read it."""
    return dict(json.loads(kubectl(*words, "-o", "json")))


def apply(manifest: str | Mapping[str, Any] | Path) -> str:
    """`kubectl apply` a file, a text or an object."""
    if isinstance(manifest, Path):
        return kubectl("apply", "-f", str(manifest))
    text = manifest if isinstance(manifest, str) else json.dumps(manifest)
    return kubectl("apply", "-f", "-", stdin=text)


def helm(*words: str, timeout_s: float = 180.0) -> str:
    """Run helm and return what it prints."""
    return _run(["helm", *words], stdin=None, timeout_s=timeout_s)


def _run(words: list[str], *, stdin: str | None, timeout_s: float) -> str:
    try:
        result = subprocess.run(
            [program(words[0]), *words[1:]],
            input=stdin,
            env={**os.environ, "KUBECONFIG": str(names.KUBECONFIG)},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        shown = " ".join(words)
        raise CommandError(f"`{shown}` did not end within {timeout_s:g} s") from error
    if result.returncode != 0:
        shown = " ".join(words)
        raise CommandError(f"`{shown}` failed: {(result.stderr or result.stdout).strip()}")
    return result.stdout
