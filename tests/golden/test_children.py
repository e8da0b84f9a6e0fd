"""The samples' children, whole, as files that a reviewer can read.

After an intended change: `pytest tests/golden --snapshot-update`.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from tandem_operator.workloads.pass_plan import plan
from tandem_operator.workloads.world import Installation, Network, World

SAMPLES = sorted((Path(__file__).parents[2] / "manifests/samples").glob("*.yaml"))
INSTALLATION = Installation(
    router_image="tandem/router:TAG",
    launcher_image="tandem/launcher:TAG",
    engine_image_cpu="tandem/engine-cpu:TAG",
    engine_image_gpu="vllm/vllm-openai:TAG",
    # Locking memory for RDMA is more than pods may do by default.
    any_pod_template=True,
    network=Network(
        operator_namespace="tandem-system",
        metrics_from=(
            {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}},
        ),
    ),
    pod_monitors=True,
)


class YamlFiles(SingleFileSnapshotExtension):
    """One YAML file for each test."""

    _write_mode = WriteMode.TEXT
    file_extension = "yaml"


class _Plain(yaml.SafeDumper):
    """No anchors, and multi-line text as text."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Plain.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    ),
)


def stored(sample: Path) -> dict[str, Any]:
    (pool,) = yaml.safe_load_all(sample.read_text())
    pool["metadata"] |= {"namespace": "serving", "uid": "UID", "generation": 1}
    return pool


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_children_of_the_sample(sample: Path, snapshot: SnapshotAssertion) -> None:
    world = World(pool=stored(sample), installation=INSTALLATION, cordoned=frozenset())

    planned = plan(world, now_s=1_790_000_000.0)
    text = yaml.dump_all(planned.children, Dumper=_Plain, sort_keys=False, width=120)

    assert text == snapshot(extension_class=YamlFiles)


def test_there_is_a_sample_for_cpu_one_gpu_and_tensor_parallelism() -> None:
    engines = [stored(sample)["spec"].get("engine") or {} for sample in SAMPLES]
    parallel = {stored(sample)["spec"]["prefill"].get("gpusPerReplica", 1) for sample in SAMPLES}

    assert {engine.get("device", "NVIDIA") for engine in engines} == {"CPU", "NVIDIA"}
    assert max(parallel) > 1
