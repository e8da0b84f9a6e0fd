"""`tandem simulate` runs the manifest's own spec and reports the outcome in three forms."""

import json
import re
from html.parser import HTMLParser

import pytest

from tests.unit.cli.files import POOL, PROFILE, SHORT, sentence, tandem, write

pytestmark = pytest.mark.simulates

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
    f"2023-11-16 18:15:{second:02d}.5,{900 + second},40\n" for second in range(60)
)


@pytest.fixture
def run(tmp_path, pool):
    def run(*words):
        out = tmp_path / "out.json"
        result = tandem("simulate", "-f", pool, *PROFILE, *SHORT, "--json", str(out), *words)
        assert result.exit_code == 0, result.output
        return json.loads(out.read_text()), result.stdout

    return run


def test_tells_the_figures_of_the_run_in_table_and_json(run):
    told, shown = run("--gpu-hour-price", "2")

    [one] = told["runs"]
    assert told["pool"] == "chat"
    assert told["slo"]["ttft_s"] == 0.3
    assert told["gpu_budget"] == 6
    assert one["policy"] == "tandem"
    assert one["requests"] == one["completed"] > 1000
    assert one["attainment"] == pytest.approx(one["good"] / one["requests"])
    assert one["cost"] == pytest.approx(2 * one["gpu_hours"])
    assert f"{one['requests']:,}" in shown
    assert f"{100 * one['attainment']:.2f}%" in shown


CLASSED = POOL.replace(
    "    attainment: 95%\n",
    "    attainment: 95%\n"
    "    classes:\n"
    "    - {name: batch, service: BestEffort, ttft: {target: 5m}}\n",
)


def test_each_class_has_a_row_and_attainment_is_of_guaranteed_requests(tmp_path):
    out = tmp_path / "out.json"
    path = write(tmp_path, "classed.yaml", CLASSED)

    result = tandem(
        *("simulate", "-f", path, *PROFILE, *SHORT, "--class", "batch=0.5", "--json", str(out))
    )

    assert result.exit_code == 0, result.output
    [one] = json.loads(out.read_text())["runs"]
    default, batch = one["classes"]["default"], one["classes"]["batch"]
    assert default["requests"] + batch["requests"] == one["requests"]
    assert 0.4 < batch["requests"] / one["requests"] < 0.6
    assert one["attainment"] == pytest.approx(default["good"] / default["requests"])
    assert "attainment of batch" in result.stdout


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("batch", "--class must be a name and a share from 0 to 1, such as batch=0.5"),
        ("batch=2", "--class must be a name and a share from 0 to 1, such as batch=0.5"),
        ("other=0.5", "--class names other, but the pool has default, batch"),
    ],
)
def test_a_class_that_makes_no_sense_is_refused(tmp_path, given, words):
    path = write(tmp_path, "classed.yaml", CLASSED)

    result = tandem("simulate", "-f", path, *PROFILE, *SHORT, "--class", given)

    assert words in " ".join(sentence(result).split())


def test_a_pool_without_classes_takes_none(pool):
    result = tandem("simulate", "-f", pool, *PROFILE, *SHORT, "--class", "batch=0.5")

    assert "the pool has no spec.slo.classes" in " ".join(sentence(result).split())


def test_the_same_seed_gives_the_same_run_and_another_one_another(run):
    first = run()

    assert run() == first
    assert run("--seed", "2")[0]["runs"] != first[0]["runs"]


def test_each_change_is_told_with_the_cores_own_sentence(run):
    told, shown = run("--start", "1P1D")

    [one] = told["runs"]
    assert one["decisions"]
    for decision in one["decisions"]:
        role, before, after = decision["role"], decision["from"], decision["to"]
        assert decision["sentence"].startswith(f"{role} {before} -> {after}: ")
    assert one["decisions"][-1]["sentence"].split(":")[0] in shown


def test_the_router_works_as_the_manifest_says(tmp_path):
    # One decode pod for a third more streams than keep 9 ms.
    load = ("--generate", "poisson", "--rate", "20", "--span", "60s", "--output-tokens", "300")
    fleet = ("--policy", "static", "--fleet", "2P1D")

    def ran(router: str) -> dict:
        text = POOL.replace("target: 20ms", "target: 9ms") + router
        pool, out = write(tmp_path, "router.yaml", text), tmp_path / "router.json"
        result = tandem("simulate", "-f", pool, *PROFILE, *load, *fleet, "--json", str(out))
        assert result.exit_code == 0, result.output
        [one] = json.loads(out.read_text())["runs"]
        return one

    gated = ran("  router: {}\n")
    unlimited = ran("  router: {decodeAdmission: Unlimited}\n")
    one_by_one = ran("  router: {limits: {prefillRequestsPerPod: 1}}\n")
    impatient = ran("  router: {timeouts: {firstToken: 1s}}\n")

    assert gated["tpot_p95_s"] < 0.009 < unlimited["tpot_p95_s"]
    assert gated["good"] > unlimited["good"]
    assert one_by_one["ttft_p50_s"] != gated["ttft_p50_s"]
    assert impatient["completed"] < gated["completed"]


def test_whether_requests_overflow_is_the_manifests(tmp_path):
    load = ("--generate", "poisson", "--rate", "20", "--span", "60s", "--prompt-tokens", "3000")
    fleet = ("--policy", "static", "--fleet", "1P3D")

    def overflowed(router: str) -> int:
        pool, out = write(tmp_path, "router.yaml", POOL + router), tmp_path / "router.json"
        result = tandem("simulate", "-f", pool, *PROFILE, *load, *fleet, "--json", str(out))
        assert result.exit_code == 0, result.output
        return json.loads(out.read_text())["runs"][0]["overflowed"]

    assert overflowed("  router: {}\n") > 0
    assert overflowed("  router: {prefillOverflow: Never}\n") == 0


def test_a_slow_network_between_pods_makes_first_tokens_late(run):
    near, shown = run("--policy", "static", "--fleet", "2P1D")
    far, over_tcp = run("--policy", "static", "--fleet", "2P1D", "--kv-gb-per-s", "0.5")

    assert "KV transfer 262 GB/s" in shown
    assert "KV transfer 0.5 GB/s" in over_tcp
    assert far["kv_gb_per_s"] == pytest.approx(0.5)
    # A prompt of 1,000 tokens holds 131 MB.
    gained_s = far["runs"][0]["ttft_p50_s"] - near["runs"][0]["ttft_p50_s"]
    assert gained_s > 0.1


def test_the_budget_of_the_manifest_is_never_exceeded(run):
    told, _ = run("--start", "1P1D", "--policy", "tandem", "--policy", "keda", "--policy", "hpa")

    assert len(told["runs"]) == 3
    assert all(one["most_gpus"] <= 6 for one in told["runs"])


def test_policies_stand_side_by_side_on_the_same_requests(run):
    names = ("tandem", "static", "hold", "hpa", "keda", "dynamo", "clairvoyant")
    words = [word for name in names for word in ("--policy", name)]

    told, shown = run(*words, "--fleet", "4P2D")

    assert len({one["requests"] for one in told["runs"]}) == 1
    assert [one["policy"] for one in told["runs"]][1] == "static 4P2D"
    assert told["runs"][1]["mean_gpus"] == pytest.approx(6.0)
    assert "clairvoyant" in shown


def test_a_tighter_slo_leaves_fewer_requests_good(tmp_path, run):
    tight = write(tmp_path, "tight.yaml", POOL.replace("target: 300ms", "target: 30ms"))

    result = tandem(
        *("simulate", "-f", tight, *PROFILE, *SHORT, "--policy", "static", "--start", "3P2D"),
        "--json",
    )
    usual, _ = run("--policy", "static", "--start", "3P2D")

    assert result.exit_code == 0
    tighter = json.loads(result.stdout)
    assert tighter["runs"][0]["good"] < usual["runs"][0]["good"]


def test_json_without_a_file_goes_to_standard_output_alone(pool):
    result = tandem("simulate", "-f", pool, *PROFILE, *SHORT, "--json")

    assert json.loads(result.stdout)["pool"] == "chat"
    assert "attainment" in result.stderr


def test_the_manifest_may_come_from_standard_input():
    result = tandem("simulate", "-f", "-", *PROFILE, *SHORT, stdin=POOL)

    assert result.exit_code == 0
    assert "pool chat" in result.stdout


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("azure.csv", AZURE),
        (
            "mooncake.jsonl",
            "".join(
                json.dumps(
                    {
                        "timestamp": 1000 * i,
                        "input_length": 700,
                        "output_length": 30,
                        "hash_ids": [],
                    }
                )
                + "\n"
                for i in range(60)
            ),
        ),
        (
            "servegen.csv",
            "t_s,rate_rps,rate_weighted_cv,mean_input_tokens,mean_output_tokens,active_clients\n"
            "0,5,1.5,800,50,3\n",
        ),
    ],
)
def test_the_format_of_a_trace_is_told_from_its_first_line(tmp_path, pool, name, text):
    trace = write(tmp_path, name, text)

    result = tandem("simulate", "-f", pool, *PROFILE, "--trace", trace, "--span", "60s", "--json")

    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["runs"][0]["completed"] >= 60


@pytest.mark.parametrize(
    "shape", ["poisson", "sine", "burst", "ramp", "step", "day", "mmpp", "agents"]
)
def test_every_shape_makes_traffic_between_its_low_and_its_high(pool, shape):
    peak = () if shape in {"poisson", "agents"} else ("--peak", "8")

    result = tandem(
        *("simulate", "-f", pool, *PROFILE, "--generate", shape, "--rate", "4", *peak),
        *("--span", "90s", "--policy", "static", "--json"),
    )

    assert result.exit_code == 0, result.output
    rate = json.loads(result.stdout)["traffic"]["rate_rps"]
    assert 2.0 < rate < 9.0


def test_the_pool_is_simulated_as_auto_and_says_so_where_the_manifest_says_otherwise(tmp_path):
    text = POOL.replace("gpuBudget: 6", "mode: Recommend").replace(
        "maxReplicas: 3", "maxReplicas: 3\n    management: External"
    )

    result = tandem("simulate", "-f", write(tmp_path, "p.yaml", text), *PROFILE, *SHORT)

    assert "scaling.mode is Recommend; simulated as Auto." in result.stdout
    assert "decode.management is External; simulated as Managed." in result.stdout


def test_says_so_where_engines_run_on_part_of_a_gpu(tmp_path):
    slice_ = "{device: NVIDIA, accelerator: {resource: nvidia.com/mig-1g.10gb}}"
    text = POOL.replace("spec:\n", f"spec:\n  engine: {slice_}\n", 1)

    result = tandem("simulate", "-f", write(tmp_path, "p.yaml", text), *PROFILE, *SHORT)

    assert "Engines run on part of a GPU (MIG 1g.10gb)" in result.stdout


def test_says_so_where_the_profile_is_of_other_replicas_than_the_pools(pool):
    result = tandem("simulate", "-f", pool, "--profile", "h200-qwen3-32b-tp2", *SHORT)

    assert (
        "h200-qwen3-32b-tp2 describes replicas of 2 GPUs; those of prefill hold 1." in result.stdout
    )


class _Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.links, self.tags = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in {"src", "href"}]


def test_the_page_needs_nothing_but_itself_and_marks_each_decision(tmp_path, run):
    path = tmp_path / "report.html"

    told, _ = run("--start", "1P1D", "--html", str(path))

    page, links = path.read_text(), _Links()
    links.feed(page)
    assert links.links == []
    assert "script" not in links.tags
    assert not re.search(r"url\(|@import", page)
    assert links.tags.count("svg") == 4
    marked = page.count('class="prefill"><title>') + page.count('class="decode"><title>')
    assert marked == len(told["runs"][0]["decisions"]) > 0
    assert 'class="bound"' in page


def test_says_what_it_lends_to_those_that_it_is_set_beside(run):
    told, shown = run("--policy", "tandem", "--policy", "hpa", "--policy", "keda")

    router, hpa, keda = told["said"][:3]
    assert router.startswith("All other policies use Tandem's router")
    assert re.fullmatch(r"hpa uses targets of 80% of both bounds: TTFT .*ms.*TPOT 16ms\.", hpa)
    assert "targets from the profile" in keda
    assert hpa in shown


def test_lends_nothing_where_tandem_is_alone(run):
    assert not any(sentence.startswith("All other policies use") for sentence in run()[0]["said"])


def test_the_cheapest_fixed_fleet_is_searched_for_and_held_against_tandem(run):
    told, _ = run("--policy", "tandem", "--policy", "cheapest")

    tandem_run, fixed = told["runs"]
    assert re.fullmatch(r"static \dP\dD", fixed["policy"])
    assert fixed["attainment"] >= 0.95
    bought = [sentence for sentence in told["said"] if "The SLO does not need them" in sentence]
    dearer = tandem_run["gpu_hours"] > fixed["gpu_hours"] and tandem_run["attainment"] > 0.95
    assert len(bought) == dearer


def test_where_no_fixed_fleet_keeps_the_slo_that_is_said(tmp_path):
    slow = write(tmp_path, "slow.yaml", POOL.replace("target: 20ms", "target: 2ms"))

    result = tandem("simulate", "-f", slow, *PROFILE, *SHORT, "--policy", "cheapest")

    assert result.exit_code == 0, result.output
    assert "No fixed fleet within the replica bounds keeps the SLO" in result.stdout


def test_a_shift_without_other_lengths_is_refused(tmp_path):
    pool = write(tmp_path, "pool.yaml", POOL)

    result = tandem("simulate", "-f", pool, "--profile", PROFILE, "--generate", "shift")

    assert result.exit_code == 2
    assert "--then-prompt-tokens" in result.output
