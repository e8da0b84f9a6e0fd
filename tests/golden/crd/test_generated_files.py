"""Files made from the models are what the models say; after an edit run `make crds`."""

from pathlib import Path

import pytest

from manifests.generate import ROOT, from_models

GENERATED = from_models()


@pytest.mark.parametrize("path", GENERATED, ids=lambda path: str(path.relative_to(ROOT)))
def test_generated_file_is_current(path: Path) -> None:
    assert path.read_text() == GENERATED[path], "run `make crds` and commit what it writes"


def test_a_definition_stays_below_what_gitops_tools_and_apply_take() -> None:
    """`kubectl apply` keeps a copy in an annotation, and etcd in one value: both have an end."""
    sizes = {path.name: len(text) for path, text in GENERATED.items() if path.parent.name == "crds"}

    assert sizes
    assert max(sizes.values()) < 100_000
