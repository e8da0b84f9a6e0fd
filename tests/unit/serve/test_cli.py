"""The launcher as a process: exit codes, signals, what it prints and where it leaves its reason."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import aiohttp
import pytest

from tandem_engine.serve import entry
from tandem_engine.serve.entry import run
from tandem_engine.serve.object_storage import folder_of
from tests.unit.serve.engine import Engine, cli_environment, options, until


def arguments(given: dict[str, object]) -> list[str]:
    return ["serve", *(f"--{name.replace('_', '-')}={value}" for name, value in given.items())]


async def launched(*given: str, **environment: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tandem_engine.serve",
        *given,
        env=cli_environment(**environment),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def test_sigterm_drains_and_exits_with_zero(model: Path) -> None:
    given = options(model)
    port = given["control_port"]
    process = await launched(*arguments(given))

    async with aiohttp.ClientSession() as session:

        async def ready() -> bool:
            try:
                async with session.get(f"http://127.0.0.1:{port}/ready") as answer:
                    return answer.status == 200
            except aiohttp.ClientError:
                return False

        await until(ready)
        process.send_signal(signal.SIGTERM)
        output, errors = await process.communicate()

    assert process.returncode == 0, errors.decode()
    [drained] = [line for line in output.splitlines() if b'"drained"' in line]
    assert json.loads(drained)["why"] == "idle"


async def test_sigterm_is_heeded_while_the_launcher_is_still_being_loaded(tmp_path: Path) -> None:
    slow = tmp_path / "pydantic.py"
    slow.write_text("import os, signal, time\nos.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(60)")
    path = os.pathsep.join([str(tmp_path), cli_environment()["PYTHONPATH"]])
    process = await launched("serve", "--role=decode", "--model=any", PYTHONPATH=path)

    await process.communicate()

    assert process.returncode == 0


async def test_an_image_that_lacks_what_comes_with_vllm_gets_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "aiohttp.py").write_text("raise ModuleNotFoundError('no', name='aiohttp')")
    path = os.pathsep.join([str(tmp_path), cli_environment()["PYTHONPATH"]])
    process = await launched("serve", "--role=decode", "--model=any", PYTHONPATH=path)

    _, errors = await process.communicate()

    assert process.returncode == 2
    assert errors.decode().startswith("spec.engine.image: it has no Python module aiohttp")
    assert errors.count(b"\n") == 1


def test_an_image_without_vllm_is_refused_before_anything_is_started(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    log.touch()

    assert run(["serve", "--role=decode", f"--model={model}", f"--termination-log={log}"]) == 2

    assert log.read_text().startswith("spec.engine.image: it has no Python module vllm")
    assert capsys.readouterr().out == ""


async def test_a_failed_start_exits_with_one_and_leaves_its_reason(
    model: Path, tmp_path: Path
) -> None:
    termination_log = tmp_path / "termination-log"
    termination_log.touch()
    process = await launched(
        *arguments(options(model, termination_log=termination_log)), FAKE_VLLM="dies-at-start"
    )

    _, errors = await process.communicate()

    assert process.returncode == 1
    reason = termination_log.read_text()
    assert "while starting: ValueError: the weights are not weights" in reason
    assert reason in errors.decode()


def test_a_bad_model_path_is_one_sentence_and_a_termination_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    log.touch()

    code = run(["serve", "--role=decode", "--model=/no/such", f"--termination-log={log}"])

    assert code == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert log.read_text().startswith("--model: /no/such does not exist")


def test_no_termination_message_is_left_where_kubernetes_has_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"

    run(["serve", "--role=decode", "--model=/no/such", f"--termination-log={log}"])

    assert not log.exists()
    assert "/no/such" in capsys.readouterr().err


@pytest.mark.parametrize("writable", [True, False])
def test_a_bucket_is_streamed_where_the_cache_cannot_be_written(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    writable: bool,
) -> None:
    given = ["serve", "--role=prefill", "--model=s3://models/llama", "--print-command"]
    folder = folder_of("s3://models/llama", into=str(tmp_path))
    monkeypatch.setattr(entry, "can_fetch", lambda _: writable)

    run([*given, f"--fetch-into={tmp_path}"])

    printed = capsys.readouterr().out
    assert ("--load-format=runai_streamer" in printed) is not writable
    assert (str(folder) in printed) is writable


def test_print_command_runs_nothing_and_is_a_shell_line(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["serve", "--role=prefill", f"--model={model}", "--print-command"]) == 0

    shown = capsys.readouterr().out
    assert shown.startswith("env ")
    assert f"--model {model}" in shown
    assert '"kv_role":"kv_producer"' in shown


@pytest.mark.parametrize(("given", "code"), [([], 2), (["run"], 2), (["--help"], 0)])
def test_a_wrong_command_shows_the_usage(
    given: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(given) == code

    captured = capsys.readouterr()
    assert "tandem-engine serve" in captured.out + captured.err


async def test_orphans_of_vllm_are_reaped_where_the_launcher_is_their_parent(model: Path) -> None:
    async with aiohttp.ClientSession() as session:
        engine = Engine.start(model, session)
        await engine.ready()
        # Stands for a grandchild that was left to process 1: a child the event loop knows not of.
        pid = os.posix_spawn("/bin/true", ["true"], {})  # noqa: ASYNC221

        async def gone() -> bool:
            return not os.path.exists(f"/proc/{pid}")  # noqa: ASYNC240

        await until(gone)
        assert await engine.probe("/live") == 200
        await engine.end()
