"""The inputs of builds and releases are named by their contents."""

import re

import pytest

from e2e.cluster import names

RECIPES = sorted((names.ROOT / "images").glob("*/Dockerfile"))
WORKFLOWS = sorted(
    each
    for folder in (".github/workflows", "manifests/github")
    for each in (names.ROOT / folder).iterdir()
)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.parent.name)
def test_images_build_on_the_base_that_the_cluster_uses(recipe) -> None:
    [base] = re.findall(r"(?m)^ARG BASE_IMAGE=(\S+)$", recipe.read_text())

    assert base == names.STOCK_PYTHON_IMAGE
    assert re.fullmatch(r"\S+:\S+@sha256:[0-9a-f]{64}", base)


@pytest.mark.parametrize("recipe", [*RECIPES, names.ROOT / "Makefile"], ids=str)
def test_uv_is_installed_by_its_hashes(recipe) -> None:
    text = recipe.read_text()

    assert "uv==" not in text
    for install in re.findall(r"uv/bin/pip install[^&\\]*", text):
        assert "--require-hashes -r " in install


def test_no_wheel_is_built_by_a_backend_of_today() -> None:
    # `pip install .` and `uv build` fetch the newest build backend, whose hash nothing holds.
    slim = (names.ROOT / "images/slim/Dockerfile").read_text()

    assert "--only-group build" in slim
    assert not re.search(r"pip install[^&]* \.( |$)", slim)


def test_actions_are_pinned_by_commit_and_no_workflow_starts_with_rights() -> None:
    # `make lint` runs zizmor on them; this holds what must not be switched off there.
    assert len(WORKFLOWS) == 3
    for workflow in WORKFLOWS:
        text = workflow.read_text()

        assert "\npermissions: {}\n" in text, workflow
        for action in re.findall(r"uses: (\S+)", text):
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action), action
