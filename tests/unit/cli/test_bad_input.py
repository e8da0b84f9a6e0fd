"""Bad input gets one sentence with file and line, and exit code 2; nothing is simulated before."""

import json
import re
from importlib.resources import files

import pytest

from tests.unit.cli.files import POOL, PROFILE, SHORT, sentence, tandem, write

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"
MOONCAKE = '{"timestamp": 0, "input_length": 10, "output_length": 5, "hash_ids": []}\n'
SERVEGEN = "t_s,rate_rps,rate_weighted_cv,mean_input_tokens,mean_output_tokens\n"


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.csv", AZURE + "2023-11-16 18:15:50.9,many,109\n", "a.csv:3: ContextTokens must be"),
        ("a.csv", AZURE + "yesterday,1,1\n", "a.csv:3: TIMESTAMP must be like"),
        ("a.csv", AZURE + "2023-11-16 18:15:50.9,5\n", "a.csv:3: expected 3 columns; got 2"),
        ("a.csv", AZURE + "2023-11-16 18:15:50.9,-5,1\n", "a.csv:3: ContextTokens must be"),
        ("m.jsonl", MOONCAKE + "{oops\n", "m.jsonl:2: not JSON"),
        ("m.jsonl", MOONCAKE + '{"timestamp": 1}\n', "m.jsonl:2: input_length must be"),
        ("s.csv", SERVEGEN + "0,-3,1,10,10\n", "s.csv:2: rate_rps must be a number of at least 0"),
        ("empty.csv", "", "empty.csv:1: is empty"),
        ("head.csv", AZURE.partition("\n")[0] + "\n", "head.csv: holds no request"),
        ("notes.txt", "hello\n", "notes.txt:1: is no known kind of trace; name it with --format"),
    ],
)
def test_a_broken_trace_is_told_with_file_and_line(tmp_path, pool, name, text, words):
    trace = write(tmp_path, name, text)

    said = sentence(tandem("simulate", "-f", pool, *PROFILE, "--trace", trace))

    assert words in said
    assert said.count("\n") == 1
    assert said.startswith("tandem simulate: ")


def test_a_trace_that_is_no_text_is_refused(tmp_path, pool):
    path = tmp_path / "trace.csv"
    path.write_bytes(b"\xff\xfe\x00")

    assert "is not UTF-8 text" in sentence(
        tandem("simulate", "-f", pool, *PROFILE, "--trace", str(path))
    )


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("target: 300ms", "target: 300", "pool.yaml:14: spec.slo.ttft.target: "),
        ("maxReplicas: 4", "maxReplicas: four", "pool.yaml:20: spec.prefill.maxReplicas: "),
        ("gpuBudget: 6", "gpuBudget: 1", "pool.yaml:24: spec.scaling.gpuBudget: "),
        ("gpuBudget: 6", "gpuBugdet: 6", "pool.yaml:24: spec.scaling.gpuBugdet: this version"),
        ("    maxReplicas: 3\n", "    minReplicas: 1\n", "pool.yaml:21: spec.decode.maxReplicas: "),
        ("name: chat", "name: Chat", "pool.yaml:1: metadata.name must begin"),
        ("kind: InferencePool", "kind: Deployment", "pool.yaml: holds no InferencePool"),
        ("kind: InferencePool", "kind: [InferencePool", "pool.yaml:3: is not YAML: "),
        ("/v1alpha1", "/v9", "pool.yaml:1: expected apiVersion"),
        ("spec:\n", "specc: {}\nspec:\n", "pool.yaml:6: specc: this version of Tandem has no"),
        ("maxReplicas: 4", 'maxReplicas: "4"', "spec.prefill.maxReplicas: must be a whole number"),
        ("maxReplicas: 4", "maxReplicas: .nan", "must be a whole number, such as 4; got NaN"),
        ("  name: chat\n", "", "pool.yaml:3: metadata.name: this field is required; write for"),
        (
            "    maxReplicas: 3\n",
            "    maxReplicas: 3\n    maxReplicas: 5\n",
            "pool.yaml:23: 'maxReplicas' is given here and on line 22; keep one of the two",
        ),
    ],
)
def test_a_bad_manifest_is_told_with_file_and_line(tmp_path, before, after, words):
    assert before in POOL
    path = write(tmp_path, "pool.yaml", POOL.replace(before, after))

    assert words in sentence(tandem("simulate", "-f", path, *PROFILE, *SHORT))


def test_every_fault_of_a_manifest_is_told_on_a_line_of_its_own(tmp_path):
    text = POOL.replace("target: 20ms", "target: fast").replace(
        "attainment: 95%", "attainment: all"
    )

    said = sentence(tandem("plan", "-f", write(tmp_path, "pool.yaml", text), *PROFILE, *SHORT))

    assert "pool.yaml:17: spec.slo.tpot.target: " in said
    assert "pool.yaml:18: spec.slo.attainment: " in said


def test_a_file_with_two_pools_is_refused(tmp_path):
    path = write(tmp_path, "two.yaml", f"{POOL}---\n{POOL}")

    assert "two.yaml: holds 2 InferencePools" in sentence(
        tandem("simulate", "-f", path, *PROFILE, *SHORT)
    )


GATEWAY = """\
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: chat, namespace: team}
spec: {}
"""


@pytest.mark.parametrize("text", [f"{GATEWAY}---\n{POOL}", f"{POOL}---\n{GATEWAY}"])
def test_a_pool_of_the_gateway_api_beside_it_does_not_matter(tmp_path, text):
    path = write(tmp_path, "both.yaml", text)

    result = tandem("simulate", "-f", path, *PROFILE, *SHORT, "--span", "5s")

    assert result.exit_code == 0, result.output


def test_a_pool_of_the_gateway_api_alone_is_told_as_such(tmp_path):
    path = write(tmp_path, "gateway.yaml", f"---\n{GATEWAY}")

    said = sentence(tandem("simulate", "-f", path, *PROFILE, *SHORT))

    assert "gateway.yaml:2: expected apiVersion tandem-inference.io/v1alpha1" in said
    assert "inference.networking.k8s.io/v1" in said


def test_an_unknown_profile_names_the_known_ones(pool):
    said = sentence(tandem("simulate", "-f", pool, "--profile", "h200-llama-3.1-8b", *SHORT))

    assert "did you mean h200-llama-3.1-8b-" in said
    assert "h100-qwen3-32b-tp2" in said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}", "own.json: lacks the field 'prefill'"),
        ("{", "own.json:1: not JSON"),
        ("[]", "own.json: expected an object"),
        ('{"tables": []}', "own.json: holds no table"),
    ],
)
def test_a_broken_profile_is_told_with_its_file(tmp_path, pool, text, words):
    path = write(tmp_path, "own.json", text)

    assert words in sentence(tandem("simulate", "-f", pool, "--profile", path, *SHORT))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--generate", "poisson", "--rate", "-3"), "--rate must be above 0, such as 20; got -3"),
        (("--generate", "sine", "--rate", "9", "--peak", "3"), "--peak must be at least --rate"),
        (("--generate", "poisson", "--span", "soon"), "--span must be a duration such as 90s"),
        (("--generate", "poisson", "--span", "0s"), "--span must be above 0"),
        (("--generate", "poisson", "--prompt-tokens", "0"), "--prompt-tokens must be at least 1"),
        (
            ("--generate", "poisson", "--rate", "1e3", "--span", "20m"),
            "1000 requests/s for 20m are 1,200,000 requests, more than 1,000,000; take a lower rate"
            " or a shorter span, such as --span 15m",
        ),
        (
            ("--generate", "sine", "--rate", "9", "--peak", "2700", "--span", "7m"),
            "up to 2700 requests/s for 7m are up to 1,134,000 requests, more than 1,000,000;"
            " take a lower rate or a shorter span, such as --span 5m33s",
        ),
        (("--generate", "poisson", "--rate", "nan"), "--rate must be above 0"),
        (("--generate", "step", "--length-sigma", "-1"), "--length-sigma must be from 0 to 3"),
        ((), "with --pool NAME; neither was given"),
        (("--generate", "step", "--trace", "x"), "--generate SHAPE; both were given"),
        (("--trace", "missing.csv"), "missing.csv: cannot be read (No such file or directory)"),
        (("--trace", "x", "--rate", "5"), "--rate is for --generate; leave it out with --trace"),
        (("--trace", "x", "--prompt-tokens", "9"), "--prompt-tokens is for --generate; leave it"),
        (("--trace", "x", "--at", "9s"), "--at is for --generate; leave it out with --trace"),
        ((*SHORT, "--rate-scale", "2"), "--rate-scale is for --trace; leave it out with"),
        ((*SHORT, "--format", "azure"), "--format is for --trace; leave it out with --generate"),
        ((*SHORT, "--peak", "90"), "--peak changes nothing of poisson; leave it out, or take"),
        (("--generate", "sine", "--at", "9s"), "--at changes nothing of sine; leave it out"),
        (("--generate", "day", "--for", "9s"), "--for changes nothing of day; leave it out"),
        (("--generate", "step", "--period", "9s"), "or take --generate sine"),
        *(
            (
                ("--generate", shape, "--span", "5m", "--at", "10m"),
                "--at must be before the end of the traffic, 5m by --span, such as 1m40s; got",
            )
            for shape in ("burst", "step", "ramp")
        ),
        ((*SHORT, "--start", "0P1D"), "--start must be a fleet such as 5P3D"),
        ((*SHORT, "--start", "5P1D"), "--start 5P1D: prefill must be from 1 to 4"),
        ((*SHORT, "--start", "4P3D"), "holds 7 GPUs, more than the pool's gpuBudget of 6"),
        ((*SHORT, "--policy", "static", "--fleet", "9P9D"), "--fleet 9P9D: prefill must be"),
        ((*SHORT, "--fleet", "2P1D"), "--fleet is that of the policy static"),
        ((*SHORT, "--gpu-hour-price", "-1"), "--gpu-hour-price must be above 0"),
        ((*SHORT, "--kv-tokens", "0"), "--kv-tokens must be above 0"),
        ((*SHORT, "--kv-gb-per-s", "0"), "--kv-gb-per-s must be above 0, such as 2.6; got 0"),
        ((*SHORT, "--cold-start", "long"), "--cold-start must be a duration"),
        ((*SHORT, "--json", "no/such/folder.json"), "the folder no/such does not exist"),
    ],
)
def test_options_that_make_no_sense_are_refused_in_a_sentence(pool, words, told):
    assert told in sentence(tandem("simulate", "-f", pool, *PROFILE, *words))


def own_profile(folder, **changes):
    """Return the measured profile as a file of one's own; a change to `None` leaves a field out."""
    shipped = files("tandem_operator.cli") / "profiles/h200-llama-3.1-8b-fp8.json"
    fields = {**json.loads(shipped.read_text()), **changes}
    kept = {name: value for name, value in fields.items() if value is not None}
    return write(folder, "own.json", json.dumps(kept))


def test_a_file_of_several_profiles_asks_for_one_of_them(tmp_path, pool):
    shipped = files("tandem_operator.cli") / "profiles/estimates.json"
    path = write(tmp_path, "own.json", shipped.read_text())

    said = sentence(tandem("simulate", "-f", pool, "--profile", path, *SHORT))

    [example] = re.findall(r"own.json: holds \d+ tables; pick one, such as (\S+)\n", said)
    result = tandem("simulate", "-f", pool, "--profile", example, *SHORT, "--span", "5s")
    assert result.exit_code == 0, result.output


def test_a_speed_of_kv_transfer_needs_the_size_of_a_token(tmp_path, pool):
    profile = own_profile(tmp_path, kv_bytes_per_token=None)
    words = ("--profile", profile, *SHORT, "--kv-gb-per-s", "2.6")

    said = sentence(tandem("simulate", "-f", pool, *words))

    assert f'add "kv_bytes_per_token": 131072 (of Llama-3.1-8B) to {profile}' in said


def test_a_size_of_a_token_that_is_not_positive_is_refused(tmp_path, pool):
    profile = own_profile(tmp_path, kv_bytes_per_token=0)

    said = sentence(tandem("simulate", "-f", pool, "--profile", profile, *SHORT))

    assert "own.json: kv_bytes_per_token must be above 0, such as 131072; got 0" in said


def test_a_rate_scale_that_is_not_positive_is_refused(tmp_path, pool):
    trace = write(tmp_path, "a.csv", AZURE)

    said = sentence(
        tandem("simulate", "-f", pool, *PROFILE, "--trace", trace, "--rate-scale", "-2")
    )

    assert "rate scale must be greater than 0" in said
