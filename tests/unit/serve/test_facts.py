import json
import os
from pathlib import Path

import pytest

from tandem_engine.serve.engine_facts import Checkpoint, gpu_name, look_around


def test_a_model_that_is_not_there_is_a_problem_with_a_remedy(tmp_path: Path) -> None:
    facts = look_around(str(tmp_path / "no"), python="python", environment={})

    assert facts.model_problem is not None
    assert "config.json" in facts.model_problem


def test_a_folder_without_config_is_a_problem(tmp_path: Path) -> None:
    facts = look_around(str(tmp_path), python="python", environment={})

    assert facts.model_problem is not None
    assert "has no config.json" in facts.model_problem


def test_a_broken_config_is_a_problem(model: Path) -> None:
    (model / "config.json").write_text("{")

    facts = look_around(str(model), python="python", environment={})

    assert facts.model_problem is not None
    assert "cannot be read" in facts.model_problem


@pytest.mark.parametrize("config", ["[]", "null", "3", "[" * 100_000])
def test_a_config_that_is_no_object_is_a_problem(model: Path, config: str) -> None:
    (model / "config.json").write_text(config)

    facts = look_around(str(model), python="python", environment={})

    assert facts.model_problem is not None
    assert "copy the model again" in facts.model_problem


@pytest.mark.parametrize(
    "config",
    [
        {"max_position_embeddings": "4096"},
        {"text_config": "small"},
        {"quantization_config": "fp8"},
        {"quantization_config": {"quant_method": ["awq"], "bits": "4"}},
        {"quantization_config": {"config_groups": ["a"]}},
        {"quantization_config": {"config_groups": {"group_0": "a"}}},
        {"quantization_config": {"config_groups": {"group_0": {"weights": "4"}}}},
    ],
)
def test_what_a_config_says_in_no_known_way_is_not_known(
    model: Path, config: dict[str, object]
) -> None:
    (model / "config.json").write_text(json.dumps(config))

    facts = look_around(str(model), python="python", environment={})

    assert facts.model_problem is None
    assert facts.checkpoint == Checkpoint()


@pytest.mark.parametrize(
    "stretched",
    [
        {"rope_scaling": {"rope_type": "linear", "factor": 4.0}},
        {"rope_parameters": {"full_attention": {"rope_type": "yarn", "factor": 4.0}}},
        {"model_max_length": 131072},
    ],
)
def test_how_far_a_stretched_context_goes_is_left_to_vllm(
    model: Path, stretched: dict[str, object]
) -> None:
    (model / "config.json").write_text(json.dumps({"max_position_embeddings": 8192} | stretched))

    checkpoint = look_around(str(model), python="python", environment={}).checkpoint

    assert checkpoint is not None
    assert checkpoint.max_positions is None


def test_a_repository_is_not_looked_for_on_disk() -> None:
    facts = look_around("org/name", python="python", environment={})

    assert not facts.model_is_local
    assert facts.model_problem is None
    assert facts.checkpoint is None


def test_four_bit_weights_are_known_from_the_config(model: Path) -> None:
    groups = {"group_0": {"weights": {"num_bits": 4}}}
    quantization = {"quant_method": "compressed-tensors", "config_groups": groups}
    (model / "config.json").write_text(
        json.dumps({"max_position_embeddings": 8192, "quantization_config": quantization})
    )

    facts = look_around(str(model), python="python", environment={})

    assert facts.checkpoint == Checkpoint("compressed-tensors", 4, 8192)


def test_the_cache_goes_home_where_home_can_be_written(tmp_path: Path, model: Path) -> None:
    at_home = look_around(str(model), python="python", environment={"HOME": str(tmp_path)})
    nowhere = look_around(str(model), python="python", environment={"HOME": "/does/not/exist"})

    assert at_home.cache_dir.startswith(str(tmp_path))
    assert not nowhere.cache_dir.startswith("/does/not/exist")


def test_the_cpu_limit_is_what_may_be_used(model: Path) -> None:
    facts = look_around(str(model), python="python", environment={"POD_IP": "10.0.0.9"})

    assert 0 < facts.cpu_limit <= len(os.sched_getaffinity(0))
    assert facts.pod_ip == "10.0.0.9"


def test_the_gpu_is_named_as_its_driver_names_it(tmp_path: Path) -> None:
    card = tmp_path / "0000:1a:00.0"
    card.mkdir()
    (card / "information").write_text(
        "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 0\nGPU UUID: \t GPU-0\n"
    )

    assert gpu_name(tmp_path) == "NVIDIA H100 80GB HBM3"


def test_a_machine_without_a_gpu_names_none(tmp_path: Path) -> None:
    assert gpu_name(tmp_path / "gpus") is None


def test_a_driver_that_does_not_answer_names_none(tmp_path: Path) -> None:
    (tmp_path / "0000:1a:00.0" / "information").mkdir(parents=True)

    assert gpu_name(tmp_path) is None
