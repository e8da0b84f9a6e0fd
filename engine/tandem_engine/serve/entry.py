"""The launcher's command line: its options, its refusals, and its exit codes."""

import asyncio
import contextlib
import os
import shlex
import shutil
import socket
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tandem_contracts import logs
from tandem_contracts.names import KEY_ENV, REVISION_ENV
from tandem_engine.serve.bucket_copy import FetchError, can_fetch, fetch
from tandem_engine.serve.engine_command import EngineCommand, vllm_command
from tandem_engine.serve.engine_facts import EngineFacts, look_around
from tandem_engine.serve.engine_image import image_refusal, look_at_image
from tandem_engine.serve.engine_settings import EngineSettings
from tandem_engine.serve.launcher import EngineError, Launcher
from tandem_engine.serve.object_storage import folder_of, scheme_of
from tandem_engine.serve.options import OptionError, parse
from tandem_engine.serve.pool_fields import Worded, as_given, in_pool_fields
from tandem_engine.serve.refusals import refusal

USAGE = "usage: tandem-engine serve --role=prefill|decode --model=MODEL ... (serve --help: all)"
BAD_USAGE, FAILED = 2, 1


def run(given: Sequence[str]) -> int:
    """Run the command line; return the exit code."""
    if not given or given[0] in ("-h", "--help"):
        print(USAGE)  # noqa: T201 - what was asked for
        return 0 if given else BAD_USAGE
    if given[0] != "serve":
        return _refuse(f"{given[0]!r} is not a command of tandem-engine; {USAGE}")
    try:
        settings, print_command = parse(given[1:])
    except OptionError as problem:
        return _refuse(str(problem))
    # An operator that made this pod from a pool gives it its revision.
    worded = in_pool_fields(settings) if REVISION_ENV in os.environ else as_given
    return _print(settings, worded) if print_command else _start(settings, worded)


def _print(settings: EngineSettings, worded: Worded) -> int:
    facts = _facts(settings)
    reason = refusal(settings, facts)
    if reason is not None:
        return _refuse(worded(reason), settings.termination_log)
    if in_cache := _in_cache(settings):
        settings, facts = in_cache, _facts(in_cache)
    print(_as_shell(vllm_command(settings, facts)))  # noqa: T201 - what was asked for
    return 0


def _start(settings: EngineSettings, worded: Worded) -> int:
    facts = _facts(settings)
    reason = refusal(settings, facts) or image_refusal(look_at_image(), model=settings.model)
    if reason is None and (in_cache := _in_cache(settings)):
        configure_logs()
        try:
            fetch(
                settings.model,
                folder=Path(in_cache.model),
                python=facts.python,
                environment=os.environ,
                worded=worded,
            )
        except FetchError as failure:
            return _refuse(str(failure), settings.termination_log, code=FAILED)
        settings, facts = in_cache, _facts(in_cache)
        reason = refusal(settings, facts)
    if reason is not None:
        return _refuse(worded(reason), settings.termination_log)
    return _serve(settings, facts, worded)


def _facts(settings: EngineSettings) -> EngineFacts:
    return look_around(settings.model, python=sys.executable, environment=os.environ)


def _in_cache(settings: EngineSettings) -> EngineSettings | None:
    """Return the settings with the model's path in the cache; `None` if it is not fetched there.

    An engine that cannot write to the cache streams its weights, like one without a cache.
    """
    if settings.fetch_into is None or scheme_of(settings.model) is None:
        return None
    folder = folder_of(settings.model, into=settings.fetch_into)
    if not can_fetch(folder):
        return None
    return settings.model_copy(update={"model": str(folder), "served_model_name": settings.name})


def _serve(settings: EngineSettings, facts: EngineFacts, worded: Worded) -> int:
    configure_logs()
    command = vllm_command(settings, facts)
    _fill_cache(command, os.environ.get("TANDEM_VLLM_CACHE"))
    revision = os.environ.get(REVISION_ENV)
    key = os.environ.get(KEY_ENV)
    launcher = Launcher(settings, command, revision=revision, gpu=facts.gpu, key=key, worded=worded)
    try:
        asyncio.run(launcher.run())
    except EngineError as failure:
        return _refuse(str(failure), settings.termination_log, code=FAILED)
    return 0


def configure_logs() -> None:
    """Log one JSON object a line to standard output, in order with the lines of vLLM."""
    logs.configure("INFO", about={"pod": socket.gethostname()}, stream=sys.stdout)


def _fill_cache(command: EngineCommand, seed: str | None) -> None:
    """Copy the cache of the image's build: it saves vLLM a second import of itself."""
    if seed is not None and "VLLM_CACHE_ROOT" in command.env:
        with contextlib.suppress(OSError):
            root = command.env["VLLM_CACHE_ROOT"]
            shutil.copytree(seed, root, dirs_exist_ok=True, copy_function=_copy_if_missing)


def _copy_if_missing(source: str, target: str) -> None:
    """Copy a file in one step: other pods may read and fill the same cache."""
    if Path(target).exists():
        return
    # In its container every launcher has the same process id, so the name must be unique to this
    # copy.
    handle, partial = tempfile.mkstemp(dir=Path(target).parent, prefix=".copy-")
    os.close(handle)
    try:
        shutil.copyfile(source, partial)
        Path(partial).chmod(0o644)
        Path(partial).replace(target)
    finally:
        Path(partial).unlink(missing_ok=True)


def _refuse(reason: str, termination_log: str | None = None, *, code: int = BAD_USAGE) -> int:
    sys.stdout.flush()
    print(f"tandem-engine: {reason}", file=sys.stderr)  # noqa: T201 - the reason for the end
    if termination_log is not None and Path(termination_log).exists():
        # The kubelet shows it as the container's message; elsewhere there is no such file.
        with contextlib.suppress(OSError):
            Path(termination_log).write_text(reason)
    return code


def _as_shell(command: EngineCommand) -> str:
    variables = [f"{name}={shlex.quote(value)}" for name, value in sorted(command.env.items())]
    return " \\\n  ".join(["env", *variables, shlex.join(command.argv)])
