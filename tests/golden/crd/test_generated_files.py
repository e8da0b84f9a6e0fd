"""Files made from the models are what the models say; after an edit run `make crds`."""

from pathlib import Path

import pytest

from manifests.generate import ROOT, from_models

GENERATED = from_models()


@pytest.mark.parametrize("path", GENERATED, ids=lambda path: str(path.relative_to(ROOT)))
def test_generated_file_is_current(path: Path) -> None:
    assert path.read_text() == GENERATED[path], "run `make crds` and commit what it writes"
