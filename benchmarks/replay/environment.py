"""The simulator's own Python environment in the user's cache; never a dependency of Tandem.

Made once from the pinned lists beside this file, and again when they change. Only the standard
library is used: any Python 3.11 can run it.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SIMULATOR, LIBRARIES = HERE / "requirements-simulator.txt", HERE / "requirements.txt"
ROOT = HERE.parents[1]
PACKAGES = tuple(str(ROOT / part) for part in ("operator", "engine", "contracts"))
"""The folders of our own packages: the simulator's environment has none of them installed."""
NEEDED = (3, 11)
MARK = "TANDEM_REPLAY_ENVIRONMENT"
STAMP = "tandem-stamp"


class NoEnvironmentError(RuntimeError):
    """The simulator cannot be installed here; the sentence says what would help."""


def cache_directory() -> Path:
    """Return the folder in which Tandem keeps what can be made again."""
    named = os.environ.get("TANDEM_CACHE")
    if named:
        return Path(named).resolve()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tandem"


def stamp() -> str:
    """Return a hash of everything that the environment is made from."""
    return hashlib.sha256(SIMULATOR.read_bytes() + b"\0" + LIBRARIES.read_bytes()).hexdigest()


def ensure() -> Path:
    """Bring the environment up to date and return its Python."""
    home = cache_directory() / "replay-venv"
    python, stamped = home / "bin" / "python", home / STAMP
    if stamped.is_file() and stamped.read_text() == stamp():
        return python
    if sys.version_info[:2] != NEEDED:
        raise NoEnvironmentError(
            f"the simulator's wheels are built for Python 3.11, this is {sys.version.split()[0]}: "
            "run `python3.11 benchmarks/replay/run.py ...`"
        )
    print(f"==> NVIDIA's replay simulator (1.8 GB) into {home}", file=sys.stderr, flush=True)
    stamped.unlink(missing_ok=True)
    pip = [
        str(python),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-warn-conflicts",
    ]
    simulator = ["--no-deps", "--only-binary", ":all:", "-r", str(SIMULATOR)]
    try:
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        subprocess.run([*pip, *simulator], check=True)
        subprocess.run([*pip, "--prefer-binary", "-r", str(LIBRARIES)], check=True)
    except subprocess.CalledProcessError as error:
        raise NoEnvironmentError(
            f"`{' '.join(map(str, error.cmd))}` ended with {error.returncode}; "
            f"its message above says why, and the next run starts anew in {home}"
        ) from error
    stamped.write_text(stamp())
    return python


def enter() -> None:
    """Go on in the simulator's environment; returns only if this process already runs there."""
    if os.environ.get(MARK) == stamp():
        return
    python = ensure()
    os.environ[MARK] = stamp()
    os.environ["PYTHONPATH"] = os.pathsep.join((*PACKAGES, str(ROOT)))
    os.environ.setdefault("DYN_LOG", "error")
    os.execv(python, [str(python), *sys.argv])
