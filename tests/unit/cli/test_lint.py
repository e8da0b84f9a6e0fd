"""`tandem lint`: files in, one line for each finding out, and an exit code for a pipeline."""

import json
import re
from pathlib import Path

import pytest
import yaml

from tandem_operator.cli.input.finding import Finding
from tandem_operator.cli.input.findings import Linted
from tandem_operator.cli.output.finding_lines import LintFormat, rendered
from tests.unit.api.bad_pools import BAD_POOLS
from tests.unit.api.bad_pools import GOOD as GOOD_POOL
from tests.unit.api.bad_pools import merged as patched
from tests.unit.cli.files import sentence, tandem, write
from tests.unit.cli.wrong_pools import GOOD, WRONG, manifests
from tests.unit.workloads.bad_templates import BAD_TEMPLATES

ROOT = Path(__file__).resolve().parents[3]
FOUND = Path(__file__).with_name("wrong_pools.txt")
RENEW = "pytest tests/unit/cli/test_lint.py --snapshot-update"
TYPO = GOOD.replace("nodeSelector", "nodeSelectr")
DEPLOYMENT = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n"
GATEWAY = "apiVersion: inference.networking.k8s.io/v1\nkind: InferencePool\nmetadata: {name: a}\n"
# Whoever locks memory for RDMA installs Tandem with this, as docs/how-to/change-pods.md says.
NEEDS_ANY_TEMPLATE = {"llama-3.3-70b-tp.yaml", "change-pods.md"}
# Each line stands for nine of the one before: hundreds of millions of values in a kilobyte.
LAUGHS = "    a0: &a0 [x]\n" + "".join(
    f"    a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10)
)


def linted(text, *options):
    result = tandem("lint", "-", *options, stdin=text)
    assert result.exit_code == (1 if result.stdout else 0), result.output
    return result.stdout.splitlines()


def test_each_wrong_pool_is_told_its_line_its_field_and_what_would_work(request):
    blocks = ("\n".join((f"## {name}", *linted(text), "")) for name, text in manifests())
    text = re.sub(r"Kubernetes 1\.\d+", "Kubernetes 1.N", "\n".join(blocks))
    if request.config.getoption("update_snapshots"):
        FOUND.write_text(text)

    assert FOUND.read_text() == text, f"a finding changed; if that was intended: {RENEW}"


@pytest.mark.parametrize("name", WRONG)
def test_every_wrong_pool_has_a_finding_of_one_line(name):
    lines = linted(dict(manifests())[name])

    assert lines
    assert all(re.match(r"-:\d+: \S+: .{10,}", line) for line in lines), lines


@pytest.mark.parametrize("bad", BAD_POOLS, ids=lambda bad: bad.name)
def test_tells_what_the_api_server_refuses(bad):
    lines = linted(yaml.safe_dump(bad.manifest()))

    assert any(bad.field.rstrip(".") in line and (bad.works or "") in line for line in lines), lines


@pytest.mark.parametrize("bad", BAD_TEMPLATES, ids=lambda bad: bad.name)
def test_tells_what_the_operator_refuses_and_what_an_installation_may_open(bad):
    pool = patched(GOOD_POOL, {"spec": {"decode": {"podTemplate": {}}}})
    pool["spec"]["decode"]["podTemplate"] = bad.template
    text = yaml.safe_dump(pool)

    assert any(f"decode.podTemplate.{bad.field}: is refused" in line for line in linted(text))
    assert not any("is refused" in line for line in linted(text, "--allow-any-pod-template"))


def test_an_option_that_the_installation_allows_is_no_finding():
    text = GOOD.replace("--seed=1", "--middleware=os.abort")

    assert linted(text, "--allow-any-extra-args") == []


def test_a_good_pool_is_clean_and_says_so_on_standard_error(tmp_path):
    result = tandem("lint", write(tmp_path, "pool.yaml", GOOD))

    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "tandem lint: 0 findings in 1 InferencePool; 0 other objects skipped\n"


def documents():
    """Yield every pool, or part of a pool's spec, in the samples and in the documents."""
    for sample in sorted((ROOT / "manifests" / "samples").glob("*.yaml")):
        yield pytest.param(sample.name, sample.read_text(), id=sample.name)
    fields = set(yaml.safe_load(GOOD)["spec"]) | {"placement", "networkPolicies"}
    for page in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]):
        blocks = re.findall(r"(?ms)^( *)```yaml\n(.*?)^ *```", page.read_text())
        for number, (indent, block) in enumerate(blocks):
            text = "\n".join(line.removeprefix(indent) for line in block.splitlines())
            part = yaml.safe_load(text)
            if not isinstance(part, dict):
                continue
            spec = part.get("spec", part)
            if part.get("kind") != "InferencePool" and spec.keys() <= fields:
                # A source takes the place of another.
                alone = {"spec": {"model": {"source": None}}}
                sourced = "source" in spec.get("model", {})
                part = patched(patched(GOOD_POOL, alone) if sourced else GOOD_POOL, {"spec": spec})
            if part.get("kind") == "InferencePool":
                text = yaml.safe_dump(part)
                yield pytest.param(page.name, text, id=f"{page.name}-{number}")


DOCUMENTS = list(documents())


@pytest.mark.parametrize(("name", "text"), DOCUMENTS)
def test_every_pool_of_the_samples_and_the_documents_is_clean(name, text):
    options = ["--allow-any-pod-template"] if name in NEEDS_ANY_TEMPLATE else []

    assert linted(text, *options) == []


def test_the_documents_hold_pools_to_look_at():
    assert len(DOCUMENTS) >= 9


def test_other_kinds_are_skipped_and_counted(tmp_path):
    text = "---\n".join((DEPLOYMENT, TYPO, GATEWAY, "", "just: data\n"))

    result = tandem("lint", write(tmp_path, "all.yaml", text))

    assert result.exit_code == 1
    assert "all.yaml:34: spec.prefill.podTemplate.spec.nodeSelectr: " in result.stdout
    assert "1 finding in 1 InferencePool; 3 other objects skipped" in result.stderr


def test_a_pool_role_belongs_in_no_file():
    text = "apiVersion: tandem-inference.io/v1alpha1\nkind: PoolRole\nmetadata: {name: a-decode}\n"

    [line] = linted(text)

    assert line.startswith("-:2: kind: Tandem makes PoolRoles itself")
    assert "management: External" in line


@pytest.mark.parametrize("group", ["inference.networking.k8s.io", "inference.networking.x-k8s.io"])
def test_a_pool_of_the_gateway_api_is_another_kind(group):
    text = GATEWAY.replace("inference.networking.k8s.io", group)

    assert "0 InferencePools; 1 other object skipped" in tandem("lint", "-", stdin=text).stderr


def test_the_items_of_a_list_are_looked_at():
    items = yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [yaml.safe_load(TYPO)]})

    [line] = linted(items)

    assert "did you mean nodeSelector?" in line


def test_a_tag_that_only_another_program_knows_is_no_matter_of_a_pool_beside_it(tmp_path):
    text = f"kind: Other\nsecret: !vault abc\n---\n{GOOD}"

    assert tandem("lint", write(tmp_path, "a.yaml", text)).exit_code == 0


def test_a_folder_is_read_and_its_folders_only_when_asked_for(tmp_path):
    (tmp_path / "deep").mkdir()
    write(tmp_path, "pool.yml", TYPO)
    write(tmp_path, "notes.txt", "[")
    write(tmp_path / "deep", "pool.json", json.dumps(yaml.safe_load(TYPO)))

    flat = tandem("lint", str(tmp_path))
    whole = tandem("lint", "-R", str(tmp_path))

    assert "1 finding in 1 InferencePool" in flat.stderr
    assert "2 findings in 2 InferencePools" in whole.stderr
    assert f"{tmp_path}/deep/pool.json:1: spec.prefill.podTemplate" in whole.stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: [InferencePool", "a.yaml:1: is not YAML: "),
        ("[" * 3000, "a.yaml: is nested too deeply"),
        ("a: 1\nb: '\x01'\n", "a.yaml:2: is not YAML: special characters are not allowed"),
        (f"{GOOD}  one: &a '{'x' * 10**6}'\n  more: [{'*a, ' * 3000}]\n", "a.yaml:1: holds too m"),
        (GOOD.replace("zone: a", "zone: !secret a"), "a.yaml:30: could not determine a constr"),
        (GOOD.replace("labels: {team: search}", "labels: &a {b: *a}"), "such as itself"),
        (f"{GOOD}  extra:\n{LAUGHS}", "a.yaml:1: holds too much; write it with fewer aliases"),
    ],
)
def test_what_cannot_be_read_exits_with_2_and_the_rest_is_still_told(tmp_path, text, words):
    result = tandem("lint", write(tmp_path, "a.yaml", text), write(tmp_path, "b.yaml", TYPO))

    assert result.exit_code == 2
    assert words in result.stderr
    assert "b.yaml:30: spec.prefill.podTemplate.spec.nodeSelectr" in result.stdout


def test_a_name_cannot_send_codes_to_the_terminal():
    found = Finding(file="a.yaml", line=1, field="spec.\x1b[2J\r\n", sentence="no such field")
    linted = Linted(findings=(found,), pools=1, skipped=0, unreadable=())

    assert [*rendered(linted, LintFormat.TEXT)] == [r"a.yaml:1: spec.\x1b[2J\r\n: no such field"]
    assert [*rendered(linted, LintFormat.GITHUB)] == [
        r"::error file=a.yaml,line=1,title=InferencePool::spec.\x1b[2J%0D%0A: no such field"
    ]


def test_the_name_of_a_file_cannot_begin_a_line_nor_a_key_end_the_output(tmp_path):
    write(tmp_path, "a\n::error::b.yaml", "[")
    write(tmp_path, "c.yaml", TYPO.replace("kind", '"\\ud800": 1\n"\\ud800": 2\nkind', 1))

    result = tandem("lint", str(tmp_path), "--output", "github")

    assert "a\\n::error::b.yaml:1: is not YAML" in result.stderr
    assert not any(line.startswith("::") for line in result.stderr.splitlines())
    assert "nodeSelectr" in result.stdout


def test_a_file_that_is_not_there_exits_with_2():
    assert "none.yaml: cannot be read (No such file" in sentence(tandem("lint", "none.yaml"))


def test_a_merge_in_what_two_items_of_a_list_share_repeats_no_key():
    head = "{apiVersion: tandem-inference.io/v1alpha1, kind: InferencePool"
    first = f"{head}, metadata: &m {{name: a, labels: {{<<: {{k: '1'}}, k: '2'}}}}}}"

    found = linted(f"kind: List\nitems:\n- {first}\n- {head}, metadata: *m}}\n")

    assert found
    assert not any("is given here" in line for line in found)


def test_a_date_without_quotes_is_text_as_for_kubectl():
    dated = GOOD.replace("labels: {team: search}", "annotations: {since: 2026-11-27}")

    assert linted(dated) == []


def test_json_has_each_finding_with_its_place(tmp_path):
    path = write(tmp_path, "pool.yaml", TYPO)

    result = tandem("lint", path, "--output", "json")

    found = json.loads(result.stdout)
    assert result.exit_code == 1
    assert (found["pools"], found["skipped"], found["unreadable"]) == (1, 0, [])
    [finding] = found["findings"]
    assert finding.pop("sentence").endswith("did you mean nodeSelector?")
    assert finding == {
        "file": path,
        "line": 30,
        "field": "spec.prefill.podTemplate.spec.nodeSelectr",
        "severity": "error",
    }


def test_github_gets_annotations_with_what_it_cannot_read_escaped(tmp_path):
    path = write(tmp_path, "a,b.yaml", GOOD.replace("attainment: 95%", "attainment: 100%"))

    result = tandem("lint", path, "-o", "github")

    assert result.stdout.startswith(f"::error file={tmp_path}/a%2Cb.yaml,line=16,title=Inferen")
    assert "a percentage from 50%25 to 99.99%25; write" in result.stdout


def test_a_field_that_tandem_overrides_is_a_warning():
    [line] = linted(GOOD.replace("nodeSelector: {zone: a}", "restartPolicy: Never"), "-ogithub")

    assert line.startswith("::warning file=-,line=30,")


def test_a_field_has_one_finding_though_two_would_speak_of_it():
    lines = linted(GOOD.replace("containers:\n", "containers: {}\n        initContainers:\n"))

    assert len([line for line in lines if ".containers: " in line]) == 1


ROUTED = GOOD.replace(
    "  router:\n",
    "  router:\n"
    "    gateway:\n"
    "      parentRefs: [{name: public, namespace: gateways}]\n"
    "      hostnames: [llm.example.com]\n",
)


def test_a_host_that_no_route_can_hold_is_found_at_its_line():
    text = ROUTED.replace("llm.example.com", "llm.example.com:443")
    line = 1 + text.splitlines().index("      hostnames: [llm.example.com:443]")

    [found] = linted(text)

    assert found.startswith(f"-:{line}: spec.router.gateway.hostnames[0]: must be a host")
    assert linted(ROUTED) == []


def test_two_pools_of_one_folder_that_want_the_same_requests_are_found(tmp_path):
    other = ROUTED.replace("name: chat\n", "name: more\n")
    (tmp_path / "prod").mkdir()
    (tmp_path / "prod" / "a.yaml").write_text(ROUTED)
    (tmp_path / "b.yaml").write_text(f"{ROUTED}---\n{other}")

    beside = tandem("lint", str(tmp_path / "b.yaml")).stdout.splitlines()
    apart = tandem("lint", "-R", str(tmp_path)).stdout.splitlines()

    [found] = beside
    assert "spec.router.gateway: pool chat wants the requests of llm.example.com too" in found
    assert "gateway.modelHeader" in found
    assert apart == beside
