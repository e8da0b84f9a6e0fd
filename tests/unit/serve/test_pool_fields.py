import pytest

from tandem_engine.serve.engine_facts import Checkpoint
from tandem_engine.serve.pool_fields import in_pool_fields
from tandem_engine.serve.refusals import refusal
from tandem_operator.workloads.builders.weights import IMAGE_MOUNT, MODEL_MOUNT
from tests.unit.serve.given import facts, settings


@pytest.mark.parametrize(
    ("model", "field"),
    [
        ("/models/tiny", "spec.model.source.image.path"),
        (MODEL_MOUNT, "spec.model.source.persistentVolumeClaim.path"),
        (f"{MODEL_MOUNT}/tiny", "spec.model.source.persistentVolumeClaim.path"),
        ("acme/tiny", "spec.model.source.huggingFace.repo"),
        ("s3://models/tiny", "spec.model.source.uri"),
        (IMAGE_MOUNT, "spec.model.source.uri"),
    ],
)
def test_the_model_is_named_by_the_source_that_the_pool_gives(model: str, field: str) -> None:
    said = in_pool_fields(settings(model=model))("--model: it does not exist")

    assert said == f"{field}: it does not exist"


def test_a_value_that_would_work_is_written_as_in_a_manifest() -> None:
    given = settings(max_model_len=9000)
    reason = refusal(given, facts(checkpoint=Checkpoint(max_positions=4096)))

    assert reason is not None
    assert in_pool_fields(given)(reason) == (
        "spec.model.maxModelLen: the model supports 4096 tokens, not 9000; "
        "write spec.model.maxModelLen: 4096 or less"
    )


def test_gpus_are_those_of_the_pods_own_role() -> None:
    said = in_pool_fields(settings(role="prefill"))("--tensor-parallel-size: write 1")

    assert said == "spec.prefill.gpusPerReplica: write 1"


def test_a_field_that_a_role_has_for_itself_is_named_there() -> None:
    given = settings(role="prefill", own_field=("quantization", "extraArgs"))

    said = in_pool_fields(given)("--extra-arg: --seed; write --quantization, not --block-size")

    assert said == (
        "spec.prefill.engine.extraArgs: --seed; write spec.prefill.engine.quantization,"
        " not spec.engine.blockSize"
    )


def test_an_option_that_an_author_gave_to_vllm_keeps_its_name() -> None:
    worded = in_pool_fields(settings())

    ours = "write --quantization outside of --extra-arg"
    assert worded(f"--extra-arg: --quantization is set by Tandem; {ours}") == (
        "spec.engine.extraArgs: --quantization is set by Tandem; write spec.engine.quantization"
        " outside of spec.engine.extraArgs"
    )
    assert worded("--kv-cache-dtype: write --kv-cache-dtype=auto") == (
        "--kv-cache-dtype: write --kv-cache-dtype=auto"
    )
