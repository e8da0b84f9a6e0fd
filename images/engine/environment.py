"""Make the engine's Python environment in the user's cache, for tests and benchmarks here.

It is what the CPU image holds: engine/uv.lock, slimmed by slim.py, with the demo model beside it. A
second run with the same inputs does nothing.

    python3 images/engine/environment.py UV CACHE
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1] / "engine"
INPUTS = (
    PROJECT / "pyproject.toml",
    PROJECT / "uv.lock",
    HERE / "slim.py",
    HERE / "tiny_model.py",
    HERE / "words.txt",
)


def main(uv: str, cache: Path) -> None:
    """Bring CACHE/engine-venv and CACHE/tiny-model up to date."""
    environment, model = cache / "engine-venv", cache / "tiny-model"
    stamp = environment / "tandem-stamp"
    inputs = hashlib.sha256(b"\0".join(path.read_bytes() for path in INPUTS)).hexdigest()
    if stamp.is_file() and stamp.read_text() == inputs and (model / "config.json").is_file():
        return
    print(f"==> engine environment (vLLM on CPU, 2.7 GB) into {environment}", flush=True)  # noqa: T201
    stamp.unlink(missing_ok=True)
    subprocess.run(  # noqa: S603
        [uv, "sync", "--frozen", "--quiet", "--project", str(PROJECT), "--compile-bytecode"],
        env={**os.environ, "UV_PROJECT_ENVIRONMENT": str(environment)},
        check=True,
    )
    python = str(environment / "bin" / "python")
    subprocess.run([sys.executable, HERE / "slim.py", environment], check=True)  # noqa: S603
    subprocess.run([python, "-B", HERE / "tiny_model.py", model], check=True)  # noqa: S603
    stamp.write_text(inputs)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
