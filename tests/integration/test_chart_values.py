"""Each value of the chart changes what it promises, and a wrong one is refused by a sentence."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from manifests.chart_readme import documented_values
from manifests.generate import NAMESPACE, REGISTRY, ROOT
from tandem_contracts.names import VLLM_IMAGE
from tests.integration.charts import (
    CHART,
    CRDS,
    IMAGES,
    MONITORING,
    RULES,
    Objects,
    container,
    deployment,
    objects_in,
    of_kind,
    render,
    run_helm,
)
from tests.integration.right_values import CLUSTER, ENV, OPERATOR, RIGHT_VALUES
from tests.integration.wrong_values import BY_SCHEMA, BY_SENTENCE, WrongValue
from tests.unit.api.bad_pools import merged

WRONG = BY_SCHEMA | BY_SENTENCE
OF_VLLM = f"all.example.com/{VLLM_IMAGE}"


def rendered_with(values: dict[str, Any], folder: Path) -> Objects:
    """Return the chart's objects with a file of values."""
    file = folder / "values.yaml"
    shared = {"imageRegistry": REGISTRY, **values.get("global", {})}
    file.write_text(yaml.safe_dump({**values, "global": shared}))
    words = ("tandem", CHART, "--namespace", NAMESPACE, *MONITORING, *RULES[:2], "-f", file)
    return objects_in(run_helm("template", *words))


def at(objects: Objects, path: str) -> Any:
    """Return the part of the objects at a path of `right_values.py`; `None` if there is none."""
    named, _, rest = path.partition(":")
    kind, _, name = named.partition("/")
    [found] = [o for o in of_kind(objects, kind) if o["metadata"]["name"] == name] or [None]
    value: Any = found
    for step, item in re.findall(r"([^.\[\]]+)|\[([^\]]+)\]", rest):
        if value is None:
            return None
        if item:
            value = next((each for each in value if name_of(each) == item), None)
        else:
            value = value[int(step)] if step.isdigit() else value.get(step)
    return value


def name_of(item: Any) -> str:
    """Return the name of a variable, volume or container, or the option of an argument."""
    return str(item["name"]) if isinstance(item, dict) else item.partition("=")[0]


@pytest.mark.parametrize("field", RIGHT_VALUES)
def test_a_value_changes_what_it_promises(field: str, tmp_path: Path) -> None:
    values, path, found, beside = RIGHT_VALUES[field]
    before = at(rendered_with(dict(beside), tmp_path), path)

    after = at(rendered_with(merged(dict(beside), values), tmp_path), path)

    assert after == found
    assert before != after


def test_every_value_is_in_the_table() -> None:
    documented = {v.name for v in documented_values((CHART / "values.yaml").read_text())}
    groups = {name for name in documented if any(o.startswith(f"{name}.") for o in documented)}

    tested = {name for field in RIGHT_VALUES for name in (field, field.rpartition(".")[0])}
    assert documented - groups <= tested


def test_every_value_stands_below_a_comment() -> None:
    text = (CHART / "values.yaml").read_text()
    documented = {value.path for value in documented_values(text)}

    def leaves(value: Any, path: tuple[str, ...] = ()) -> Any:
        if isinstance(value, dict) and value:
            for key, inner in value.items():
                yield from leaves(inner, (*path, key))
        else:
            yield path

    for path in leaves(yaml.safe_load(text)):
        assert any(path[:depth] in documented for depth in range(1, len(path) + 1)), path


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_value_is_refused_by_a_sentence(case: str, tmp_path: Path) -> None:
    wrong: WrongValue = WRONG[case]

    with pytest.raises(RuntimeError) as refused:
        rendered_with(wrong.values, tmp_path)

    assert wrong.sentence in str(refused.value)
    assert "nil pointer" not in str(refused.value)


@pytest.mark.parametrize("field", [field for field in RIGHT_VALUES if "imageRegistry" not in field])
def test_a_value_that_is_taken_away_is_refused_or_has_no_effect(field: str, tmp_path: Path) -> None:
    values: Any = None
    for key in reversed(field.split(".")):
        values = {key: values}

    refused = ""
    try:
        rendered_with(values, tmp_path)
    except RuntimeError as error:
        refused = str(error)

    # Helm's own words for a mistake of the chart.
    assert "error calling" not in refused


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_no_proxy_comes_between_the_operator_and_its_cluster(scheme: str, tmp_path: Path) -> None:
    proxy = {f"{scheme}Proxy": "http://p:1"}

    assert at(rendered_with(proxy, tmp_path), f"{ENV}[NO_PROXY].value") == CLUSTER


def test_the_bundle_is_mounted_where_its_variable_says(tmp_path: Path) -> None:
    objects = rendered_with({"caBundle": {"configMap": "ours"}}, tmp_path)
    mount = at(objects, f"{OPERATOR}.volumeMounts[ca-bundle]")
    variable = at(objects, f"{ENV}[SSL_CERT_FILE].value")

    assert variable == f"{mount['mountPath']}/ca.crt"
    assert mount["readOnly"] is True


def test_the_pod_of_helm_test_asks_a_port_that_the_service_has() -> None:
    objects = render()
    [pod] = of_kind(objects, "Pod")
    [url] = pod["spec"]["containers"][0]["args"]
    asked = re.fullmatch(r"http://([^.]+)\.([^.]+)\.svc:(\d+)/readyz", url)
    services = {one["metadata"]["name"]: one for one in of_kind(objects, "Service")}

    assert asked is not None
    name, namespace, port = asked.groups()
    assert namespace == NAMESPACE
    assert int(port) in {each["port"] for each in services[name]["spec"]["ports"]}


def test_every_object_has_the_common_labels_and_annotations() -> None:
    given = ("commonLabels.team=a", "commonAnnotations.note=b", "pools.admissionPolicy=true")
    more = (
        "--set",
        "networkPolicy.enabled=true,replicas=2,dashboards.enabled=true",
        *MONITORING,
        *RULES,
    )

    objects = render("--set", ",".join(given), *more)

    heads = [one["metadata"] for one in objects]
    heads.append(deployment(objects)["spec"]["template"]["metadata"])
    assert len(heads) > 15
    for head in heads:
        assert (head["labels"]["team"], head["annotations"]["note"]) == ("a", "b"), head


def test_a_common_registry_acts_on_every_image() -> None:
    own = "image.registry=a.example.com,routerImage.registry=b.example.com"

    objects = render("--set", f"global.imageRegistry=all.example.com,{own}")

    [test] = of_kind(objects, "Pod")
    images = [test["spec"]["containers"][0]["image"], container(objects)["image"]]
    images += [v["value"] for v in container(objects)["env"] if v["name"].endswith("_IMAGE")]
    assert len(images) == 6
    assert all(image.startswith(("all.example.com/tandem/", OF_VLLM)) for image in images)


def test_no_default_image_can_be_published_by_others() -> None:
    with pytest.raises(RuntimeError, match=r"image\.registry is empty"):
        run_helm("template", "tandem", CHART)


def test_pools_on_gpus_run_the_image_of_vllm_that_the_launcher_is_tested_with() -> None:
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())["engineImages"]["gpu"]

    assert f"{defaults['repository']}:{defaults['tag']}" == VLLM_IMAGE
    assert defaults["registry"] == "docker.io"


def test_a_proxy_from_a_secret_does_not_come_between_the_operator_and_the_cluster() -> None:
    reference = {"secretKeyRef": {"name": "proxy", "key": "url"}}
    given = json.dumps([{"name": "HTTPS_PROXY", "valueFrom": reference}])

    variables = {v["name"]: v for v in container(render("--set-json", f"extraEnv={given}"))["env"]}

    assert "$(KUBERNETES_SERVICE_HOST)" in variables["NO_PROXY"]["value"]
    assert "NO_PROXY" not in {v["name"] for v in container(render())["env"]}


def test_the_test_pod_is_no_pod_of_the_operator() -> None:
    objects = render()

    [pod] = of_kind(objects, "Pod")
    selected = deployment(objects)["spec"]["selector"]["matchLabels"]
    assert not selected.items() <= pod["metadata"]["labels"].items()
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert "serviceAccountName" not in pod["spec"]


def test_values_of_this_repository_install_the_chart(tmp_path: Path) -> None:
    from e2e.cluster.images import IMAGES as BUILT
    from e2e.cluster.images import chart_values

    tags = {image.variable: f"{image.repository}:1f" for image in BUILT}
    objects = rendered_with(chart_values(tags), tmp_path)

    assert container(objects)["image"] == "docker.io/tandem/operator:1f"


def test_images_have_a_numeric_user_that_is_not_root() -> None:
    for recipe in sorted((ROOT / "images").glob("*/Dockerfile")):
        *_, user = re.findall(r"(?m)^USER (\S+)$", recipe.read_text())
        assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user), recipe


@pytest.mark.parametrize("chart", [CHART, CRDS], ids=lambda chart: chart.name)
def test_strict_lint_finds_nothing_with_a_registry(chart: Path) -> None:
    words = IMAGES if chart is CHART else ()

    found = run_helm("lint", "--strict", chart, *words)

    assert "0 chart(s) failed" in found
    assert "WARNING" not in found
