"""Settings and endpoints from documents: parsed whole or refused with one sentence."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tandem_engine.router.discovery.files import FileSource, parse_endpoints
from tandem_engine.router.pods.fleet import EnginePods
from tandem_engine.router.pods.pod import Role
from tandem_engine.router.settings_in_force import SettingsError, SettingsHolder, parse_settings
from tests.unit.router.pool import decode_pace, settings_document, until


def test_the_documented_settings_are_read() -> None:
    settings = parse_settings(json.dumps(settings_document(generation=3)))

    assert settings.generation == 3
    assert settings.models == ("tiny",)
    assert settings.limits.prefill_requests_per_pod == 64
    assert settings.slo.ttft_bound_s(2000) == 5.0
    assert settings.decode is None


@pytest.mark.parametrize(
    ("document", "word"),
    [
        ("{", "not JSON"),
        ("[]", "the document"),
        (settings_document(schema=2), "schema"),
        (settings_document(models=[]), "models"),
        (settings_document(slo={"ttft_s": 0}), "slo.ttft_s"),
        (settings_document(slo={"attainment": 1.5}), "slo.attainment"),
        (settings_document(limits={"body_bytes": -1}), "limits.body_bytes"),
        (settings_document(timeouts={"idle_s": "soon"}), "timeouts.idle_s"),
        (settings_document(decode=decode_pace(step_s=[0.004, -1.0, 0.0])), "decode.step_s.1"),
        (settings_document(decode=decode_pace(step_s=[0.004])), "decode.step_s"),
        (settings_document(decode=decode_pace(max_num_seqs=0)), "decode.max_num_seqs"),
        (settings_document(decode=decode_pace(kv_capacity_tokens=0)), "decode.kv_capacity_tokens"),
    ],
)
def test_bad_settings_are_refused_with_the_fields_name(document: Any, word: str) -> None:
    text = document if isinstance(document, str) else json.dumps(document)

    with pytest.raises(SettingsError, match=word) as refused:
        parse_settings(text)

    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [b"{", b"{}", b'[{"name": "p"}]', b'[{"name":"p","role":"router","host":"h","port":1}]'],
)
def test_bad_endpoints_are_refused(text: bytes) -> None:
    with pytest.raises(SettingsError, match="endpoints file"):
        parse_endpoints(text)


class Files:
    def __init__(self, folder: Path) -> None:
        self.settings_path = folder / "router.json"
        self.endpoints_path = folder / "endpoints.json"
        self.fleet = EnginePods(asyncio.get_running_loop().time)
        self.settings = SettingsHolder()
        self.source = FileSource(
            settings_path=self.settings_path,
            endpoints_path=self.endpoints_path,
            settings=self.settings,
            fleet=self.fleet,
        )

    def write(self, *names: str, **changes: Any) -> None:
        self.settings_path.write_text(json.dumps(settings_document(**changes)))
        entries = [
            {"name": name, "role": "decode", "host": "127.0.0.1", "port": 1, "revision": "a"}
            for name in names
        ]
        self.endpoints_path.write_text(json.dumps(entries))

    def usable(self) -> list[str]:
        return sorted(pod.name for pod in self.fleet.usable(Role.DECODE))


@pytest.fixture
async def files(tmp_path: Path) -> AsyncIterator[Files]:
    files = Files(tmp_path)
    files.write("d0")
    files.source.load()
    task = asyncio.create_task(files.source.run())
    yield files
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_edited_files_are_in_force_without_a_restart(files: Files) -> None:
    assert files.usable() == ["d0"]

    files.write("d0", "d1", generation=2)

    await until(lambda: files.usable() == ["d0", "d1"])
    assert files.settings.current is not None
    assert files.settings.current.generation == 2


async def test_a_broken_edit_leaves_things_as_they_were(
    files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    files.settings_path.write_text('{"schema": 1')
    await until(lambda: caplog.records)

    assert files.usable() == ["d0"]
    assert files.settings.current is not None
    assert "not JSON" in caplog.records[-1].__dict__["why"]
