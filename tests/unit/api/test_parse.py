"""A pool is read leniently by the operator and strictly by a linter, with one sentence each."""

from pathlib import Path

import pytest
import yaml
from pydantic.alias_generators import to_camel

from tandem_operator.api import (
    Device,
    InvalidPoolError,
    Management,
    Preset,
    ScalingMode,
    parse_pool,
)
from tandem_operator.api.v1alpha1.engine import RoleEngine
from tests.unit.api.bad_pools import BAD_POOLS, GOOD, Bad, merged

SAMPLES = sorted((Path(__file__).parents[3] / "manifests" / "samples").glob("*.yaml"))


@pytest.mark.parametrize("bad", BAD_POOLS, ids=lambda bad: bad.name)
def test_refuses_offline_what_the_api_server_refuses(bad: Bad) -> None:
    with pytest.raises(InvalidPoolError) as refusal:
        parse_pool(bad.manifest(), strict=True)

    assert bad.field.rstrip(".") in str(refusal.value)
    assert (bad.works or "") in str(refusal.value)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_samples_have_no_unknown_field(sample: Path) -> None:
    assert parse_pool(yaml.safe_load(sample.read_text()), strict=True).metadata.name


@pytest.mark.parametrize("bad", BAD_POOLS, ids=lambda bad: bad.name)
def test_no_refusal_names_its_field_twice(bad: Bad) -> None:
    with pytest.raises(InvalidPoolError) as refusal:
        parse_pool(bad.manifest(), strict=True)

    for fault in refusal.value.faults:
        path, _, words = str(fault).partition(": ")
        assert words.partition(" ")[0].split(".")[-1] != path.rpartition(".")[2].partition("[")[0]


def test_minimal_sample_has_15_lines_at_most() -> None:
    minimal = next(path for path in SAMPLES if path.stem == "minimal")

    assert len(minimal.read_text().splitlines()) <= 15


def test_fills_in_defaults() -> None:
    spec = parse_pool(GOOD).spec

    assert spec.engine.device is Device.NVIDIA
    assert spec.prefill.min_replicas == 1
    assert spec.prefill.management is Management.MANAGED
    assert spec.scaling.mode is ScalingMode.AUTO
    assert spec.scaling.gpu_budget is None
    assert spec.slo.bounds().attainment == 0.99


def test_operator_reads_fields_of_a_newer_version() -> None:
    newer = merged(GOOD, {"spec": {"cache": {"size": "2Gi"}, "decode": {"warmPool": 2}}})

    assert parse_pool(newer) == parse_pool(GOOD)
    with pytest.raises(InvalidPoolError, match="no such field"):
        parse_pool(newer, strict=True)


def test_operator_refuses_a_value_of_a_newer_version_with_a_sentence() -> None:
    newer = merged(GOOD, {"spec": {"engine": {"device": "TPU"}}})

    with pytest.raises(InvalidPoolError, match=r"spec\.engine\.device: .*'NVIDIA' or 'AMD'"):
        parse_pool(newer)


def test_refuses_another_kind_of_the_same_name() -> None:
    theirs = merged(GOOD, {"apiVersion": "inference.networking.k8s.io/v1"})

    with pytest.raises(
        InvalidPoolError, match=r"expected apiVersion tandem-inference\.io/v1alpha1"
    ):
        parse_pool(theirs)


@pytest.mark.parametrize("spec", [None, [], "x"])
def test_refuses_a_spec_that_is_no_object(spec: object) -> None:
    with pytest.raises(InvalidPoolError, match="spec"):
        parse_pool({**GOOD, "spec": spec})


@pytest.mark.parametrize(
    ("patch", "sentence"),
    [
        (
            {"prefill": {"maxReplicas": "4"}},
            'maxReplicas: must be a whole number, such as 4; got "4"',
        ),
        (
            {"prefill": {"maxReplicas": 4.5}},
            "maxReplicas: must be a whole number, such as 4; got 4.5",
        ),
        ({"prefill": {"maxReplicas": float("nan")}}, "must be a whole number, such as 4; got NaN"),
        ({"prefill": {"maxReplicas": True}}, "must be a whole number, such as 4; got true"),
        ({"prefill": {"maxReplicas": 10**30}}, "maxReplicas: must be at most 1000; got 1000"),
        ({"router": {"minReplicas": 0}}, "router.minReplicas: must be at least 1; got 0"),
        (
            {"engine": {"device": "TPU"}},
            "engine.device: must be 'CPU', 'NVIDIA' or 'AMD'; got \"TPU\"",
        ),
        ({"engine": {"prefixCaching": "yes"}}, 'must be true or false; got "yes"'),
        ({"engine": []}, "spec.engine: must be an object, with fields; got a list"),
        (
            {"model": {"name": 3}},
            "spec.model.name: must be a string, in quotes where YAML needs them; got 3",
        ),
        ({"model": {"name": "x" * 999}}, "spec.model.name: must be at most 128 characters"),
        ({"engine": {"extraArgs": "--x"}}, 'spec.engine.extraArgs: must be a list; got "--x"'),
        (
            {"slo": {"attainment": {"a": 1}}},
            "must be a string, in quotes where YAML needs them; got an object",
        ),
        ({"slo": None}, "spec.slo: this field is required; write for example slo: {preset: Chat}"),
    ],
)
def test_every_sentence_is_of_ours_and_says_what_came(patch, sentence) -> None:
    with pytest.raises(InvalidPoolError) as refusal:
        parse_pool(merged(GOOD, {"spec": patch}))

    assert sentence in str(refusal.value)
    assert "Input should" not in str(refusal.value)


@pytest.mark.parametrize(
    ("obj", "sentence"),
    [
        (merged(GOOD, {"spec": None}), "spec: this field is required; write for example spec: {mo"),
        ({**GOOD, "spec": None}, "spec: must be an object, with fields; got null"),
        ({**GOOD, "metadata": ["good"]}, "metadata: must be an object, with fields; got a list"),
        (
            {**GOOD, "metadata": None},
            "metadata.name: this field is required; write for example name: chat-8b",
        ),
    ],
)
def test_an_object_without_its_parts_is_told_what_they_are(obj, sentence) -> None:
    with pytest.raises(InvalidPoolError) as refusal:
        parse_pool(obj)

    assert str(refusal.value).startswith(sentence)


def test_an_amount_of_another_type_is_told_once() -> None:
    with pytest.raises(InvalidPoolError) as refusal:
        parse_pool(merged(GOOD, {"spec": {"engine": {"kvCacheMemory": 4.5}}}))

    assert str(refusal.value) == (
        "spec.engine.kvCacheMemory: must be a quantity such as 500m, 2 or 64Mi; got 4.5"
    )


def test_lint_reports_an_unknown_field_beside_the_spec() -> None:
    mistyped = {**GOOD, "specc": {}}

    assert parse_pool(mistyped) == parse_pool(GOOD)
    with pytest.raises(InvalidPoolError, match=r"^specc: this version of Tandem has no such"):
        parse_pool(mistyped, strict=True)


def test_status_does_not_matter_to_the_spec() -> None:
    assert parse_pool({**GOOD, "status": {"conditions": "nonsense"}}) == parse_pool(GOOD)


def test_preset_fills_in_what_is_not_given() -> None:
    slo = {"preset": "Chat", "ttft": {"target": "1.5s"}, "tpot": None}
    bounds = parse_pool(merged(GOOD, {"spec": {"slo": slo}})).spec.slo.bounds()

    assert bounds.ttft_s == 1.5
    assert bounds.ttft_s_per_thousand_prompt_tokens == 0.2
    assert bounds.tpot_s == 0.05


@pytest.mark.parametrize("preset", list(Preset))
def test_every_preset_is_a_whole_slo(preset: Preset) -> None:
    slo = {"preset": preset.value, "ttft": None, "tpot": None}
    bounds = parse_pool(merged(GOOD, {"spec": {"slo": slo}})).spec.slo.bounds()

    assert 0 < bounds.tpot_s < bounds.ttft_s


def test_bound_without_preset_does_not_grow_with_the_prompt() -> None:
    assert parse_pool(GOOD).spec.slo.bounds().ttft_s_per_thousand_prompt_tokens == 0.0


def test_replica_without_gpus_counts_as_one_unit() -> None:
    cpu = {"engine": {"device": "CPU"}, "prefill": {"minReplicas": 2}, "scaling": {"gpuBudget": 3}}

    assert parse_pool(merged(GOOD, {"spec": cpu})).spec.minimum_gpus() == 3


def test_a_role_has_what_it_says_itself_and_the_rest_from_the_engine_of_both() -> None:
    own = {
        "image": "acme/engine:2",
        "quantization": "fp8",
        "prefixCaching": False,
        "maxNumSeqs": 8,
        "kvCacheMemory": "64Mi",
        "extraArgs": ["--seed=2"],
    }
    both = {"blockSize": 32, "dtype": "float16", "extraArgs": ["--seed=1", "--stream-interval=2"]}
    spec = parse_pool(
        merged(GOOD, {"spec": {"engine": both, "prefill": {"engine": own}}}), strict=True
    ).spec

    claimed = {"resourceClaimTemplateName"}

    assert set(own) == {to_camel(name) for name in RoleEngine.model_fields} - claimed
    assert spec.engine_of("prefill").to_object() == spec.engine.to_object() | own
    assert spec.engine_of("decode") == spec.engine


def test_a_role_has_its_own_claim_or_that_of_both() -> None:
    claimed = {
        "engine": {"accelerator": {"resourceClaimTemplateName": "two-gpus"}},
        "prefill": {"gpusPerReplica": 2},
        "decode": {"gpusPerReplica": 4, "engine": {"resourceClaimTemplateName": "four-gpus"}},
    }
    spec = parse_pool(merged(GOOD, {"spec": claimed}), strict=True).spec

    claims = {role: spec.engine_of(role).claim_template for role in ("prefill", "decode")}
    assert claims == {"prefill": "two-gpus", "decode": "four-gpus"}
    assert spec.engine.gpu_resource is None


@pytest.mark.parametrize("field", ["dtype", "device", "backend", "blockSize"])
def test_what_roles_cannot_differ_in_is_told_where_it_belongs(field: str) -> None:
    wrong = merged(GOOD, {"spec": {"decode": {"engine": {field: "x"}}}})

    with pytest.raises(
        InvalidPoolError, match=rf"decode\.engine\.{field}: .* write it in spec\.engine"
    ):
        parse_pool(wrong, strict=True)
