"""`tandem explain` tells a saved pool's decisions, what they rest on, and what to do."""

import copy
import json
import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from tandem_operator.api import ConditionType
from tandem_operator.cli.output.explained import INPUTS
from tandem_operator.core.learn.engine_models import EngineModels
from tandem_operator.core.learn.measurements import LearnedEngines
from tandem_operator.core.learn.roofline import Prior
from tandem_operator.core.memory import Memory
from tandem_operator.core.objective.error_budget import ErrorBudget
from tandem_operator.core.objective.insurance import Cover
from tandem_operator.core.objective.promise import Promise
from tandem_operator.core.observation import StartUp
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.role_targets import Bursts
from tandem_operator.sim.policy import Tandem
from tandem_operator.sim.simulate import simulate
from tandem_operator.workloads.status.condition_now import BAD_WHEN_TRUE, NEVER_BAD
from tandem_operator.workloads.stored_memory import memory_to_json
from tests.unit.cli.files import sentence, tandem, write
from tests.unit.cli.saved import condition, event, memory, pool, saved
from tests.unit.sim.setups import ENGINE, make_setup, steady


@pytest.fixture
def explain(tmp_path):
    def explain(*objects, words=()):
        path = write(tmp_path, "saved.yaml", saved(*objects))
        return tandem("explain", "--file", path, *words)

    return explain


def test_tells_the_decision_its_inputs_and_what_was_not_taken(explain):
    result = explain(pool())

    assert result.exit_code == 0, result.output
    for words in (
        "team/chat: TTFT 300ms + 50ms per 1,000 prompt tokens, TPOT 20ms, 95% of requests",
        "prefill 2 -> 3: TTFT p95 was 0.51 s (bound 0.45 s) in the last 2 minutes",
        "limit: gpuBudget 6",
        "not taken: 2 prefill: 9 % of requests late because of prefill",
        "120ms, 512ms, 1.2s, bound 300ms + 50ms per 1,000 tokens",
        "91.2%, 95% wanted",
        "-76% of 1h, 81% of 30d",
        "router_queue 36, decode_step 4",
    ):
        assert words in result.stdout
    assert "arrival rate" in result.stdout
    assert "12.4/s" in result.stdout
    # A number that a newer operator writes is shown under its own name.
    assert "new_number" in result.stdout


def test_each_class_is_told_of(explain):
    told = copy.deepcopy(pool())
    told["status"]["slo"]["classes"] = [
        {"name": "batch", "attainment": "75.0%", "goodTokens": "5", "queued": 3},
        {"name": "default", "queued": 0},
    ]

    result = explain(told)

    assert "class batch" in result.stdout
    assert "75.0% attainment, 5 good tokens/s, 3 waiting" in result.stdout
    assert "class default" in result.stdout


def test_each_tenant_is_told_of(explain):
    told = copy.deepcopy(pool())
    told["status"]["tenants"] = [
        {
            "name": "search",
            "attainment": "75.0%",
            "requests": "4",
            "refused": "0.5",
            "outputTokens": "90",
        },
        {"name": "other", "requests": "0", "refused": "0", "outputTokens": "0"},
    ]

    shown = re.sub(" +", " ", explain(told).stdout)

    told_of = "tenant search 75.0% attainment, 4 requests/s, 0.5 refused/s, 90 output tokens/s"
    assert told_of in shown
    assert "tenant other -" in shown


def test_each_schedule_is_told_of(explain):
    told = copy.deepcopy(pool())
    told["status"]["schedules"] = [
        {"name": "office", "until": "2026-09-21T18:00:00Z", "next": "2026-09-22T08:00:00Z"},
        {"name": "night", "next": "2026-09-21T22:00:00Z"},
        {"name": "always"},
    ]

    shown = re.sub(" +", " ", explain(told).stdout)

    assert "office in force until 2026-09-21T18:00:00Z; begins at 2026-09-22T08:00:00Z" in shown
    assert "night begins at 2026-09-21T22:00:00Z" in shown
    assert "always in force" in shown


def test_text_of_others_cannot_move_the_cursor(explain):
    foul = "\x1b[2J\x07 gone"
    told = pool(conditions=[condition("Ready", "False", "Starting", f"pod x: {foul}")])

    result = explain(told, event(foul))

    assert "pod x: \\x1b[2J" in result.stdout
    assert "\x1b" not in result.stdout
    assert "\x07" not in result.stdout


BURSTS = Bursts(rate_rps=40.0, times=6, span_s=1800.0, late_share=0.09)
HELD = Cover(
    floors={Role.PREFILL: 3, Role.DECODE: 1},
    hold_s=600.0,
    late_share=0.02,
    bare_share=0.14,
    bursts={Role.PREFILL: BURSTS},
)


def insured(cover, **more):
    return memory(memory_to_json(Memory(promise=Promise(cover=cover, **more))))


def test_tells_what_is_held_and_for_which_bursts(explain):
    told = json.loads(explain(pool(), insured(HELD), words=("--json",)).stdout)["insurance"]

    assert told["prefill held at"] == (
        "3: bursts of about 40 requests/s arrived 6 times in the last 30 minutes;"
        " 9 % of their requests would be late with 1 replica fewer"
    )
    assert "decode held at" not in told
    assert told["what was needed is kept for"] == "10.0 min at least"
    assert told["late in the last hours, played again"] == "2 % with it, 14 % without"


def test_tells_that_a_steady_fleet_waits_for_more_than_ever_came(explain):
    result = explain(pool(), insured(replace(HELD, steady=True, hold_s=0.0)))

    assert "Insurance against bursts" in result.stdout
    assert "only for more load than it was chosen for" in result.stdout


def test_tells_up_to_how_many_a_level_that_came_before_may_hold(explain):
    most = {Role.PREFILL: 4, Role.DECODE: 2}

    told = json.loads(explain(pool(), insured(replace(HELD, most=most)), words=("--json",)).stdout)

    assert told["insurance"]["no more than"] == (
        "4 prefill, 2 decode, except for more load than it was chosen for"
    )


def test_a_pool_without_bursts_tells_of_no_insurance(explain):
    assert "Insurance against bursts" not in explain(pool(), insured(Cover())).stdout


def test_tells_how_fast_the_error_budget_is_spent(explain):
    budget = ErrorBudget(folded_s=0, finished=(100,) * 60, good=(90,) * 60)

    result = explain(pool(), insured(HELD, budget=budget))

    assert "spent at 2.00 x over 5m, 2.00 x over 1h, 2.00 x over 6h" in " ".join(
        result.stdout.split()
    )


def test_says_what_to_do_about_each_condition_that_is_bad_and_no_other(explain):
    told = json.loads(explain(pool(), words=("--json",)).stdout)

    assert told["bad"] == ["SLOMet", "CapacityBlocked"]
    assert (
        "90% of the misses have the cause router_queue: prefill needs more replicas"
        in told["to_do"]["SLOMet"]
    )
    assert "kubectl describe pods -n team -l" in told["to_do"]["CapacityBlocked"]
    assert set(told["to_do"]) == {"SLOMet", "CapacityBlocked"}


def test_a_condition_of_a_newer_version_is_shown_and_not_judged(explain):
    found = condition("Pampered", "False", "Anything", "A newer operator said so.")

    told = json.loads(explain(pool(conditions=[found]), words=("--json",)).stdout)

    assert told["bad"] == []
    assert "A newer operator said so." in explain(pool(conditions=[found])).stdout


@pytest.mark.parametrize("kind", sorted(set(ConditionType) - NEVER_BAD))
def test_every_condition_that_can_be_bad_has_something_to_do(kind, explain):
    status = "True" if kind in BAD_WHEN_TRUE else "False"
    reasons = {"Accepted": "InvalidSpec", "ScalingActive": "Paused"}
    found = condition(kind.value, status, reasons.get(kind.value, "Anything"), "It is bad.")

    told = json.loads(explain(pool(conditions=[found]), words=("--json",)).stdout)

    assert told["bad"] == [kind.value]
    assert told["to_do"][kind.value].endswith(".")


@pytest.mark.parametrize(
    ("kind", "status", "reason", "words"),
    [
        ("Ready", "False", "RollingOut", "Wait for the cold start."),
        ("Ready", "False", "BelowMinimum", "Wait for the cold start."),
        ("Ready", "False", "Crashing", "Read the messages of the pods"),
        ("Ready", "False", "ChildRefused", "See Accepted."),
        ("Stalled", "True", "InvalidSpec", "See Accepted."),
        ("Accepted", "False", "OwnedByOther", "See FieldConflict."),
    ],
)
def test_what_to_do_about_a_pool_that_is_not_ready_depends_on_why(
    kind, status, reason, words, explain
):
    found = condition(kind, status, reason, "It is so.")

    told = json.loads(explain(pool(conditions=[found]), words=("--json",)).stdout)

    assert told["to_do"][kind].startswith(words)


def test_a_rollout_that_goes_on_is_nothing_to_do_anything_about(explain):
    found = condition("Reconciling", "True", "RollingOut", "prefill: 1 of 3 pods run the new spec.")

    told = json.loads(explain(pool(conditions=[found]), words=("--json",)).stdout)

    assert (told["bad"], told["to_do"]) == ([], {})


def test_shows_the_pools_own_events_oldest_first(explain):
    others = [event("not mine", name="other"), event("an older chat's", uid="u-0")]
    late = event("prefill 2 -> 3", at="2026-05-04T10:00:00.5Z")
    early = event("prefill 1 -> 2", at="2026-05-04T09:00:00.5Z")

    result = explain(late, pool(), *others, early)

    assert result.stdout.index("prefill 1 -> 2") < result.stdout.index("  prefill 2 -> 3\n")
    assert "not mine" not in result.stdout
    assert "an older chat's" not in result.stdout


def test_brackets_in_what_others_wrote_are_shown_as_they_are(explain):
    result = explain(pool(), event("pod x: [/red] exceeded quota [gpus]"))

    assert "pod x: [/red] exceeded quota [gpus]" in result.stdout


def test_tells_what_the_operator_has_learned(explain):
    result = explain(pool(), memory())

    assert "cold start of prefill" in result.stdout
    assert "55.0 s, P90 59.0 s (10 seen)" in result.stdout


def test_a_memory_that_cannot_be_read_is_told_and_stops_nothing(explain):
    result = explain(pool(), memory("{}"))

    assert result.exit_code == 0
    assert "What Tandem learned is not shown: The stored memory has version None" in result.stdout


def test_a_pool_whose_spec_makes_no_sense_is_explained_all_the_same(explain):
    broken = pool()
    broken["spec"]["slo"]["tpot"] = {"target": "fast"}

    result = explain(broken)

    assert "The spec is not valid: spec.slo.tpot.target: " in result.stdout
    assert "prefill 2 -> 3" in result.stdout


def test_explain_says_that_no_operator_has_seen_a_pool(explain):
    new = pool()
    del new["status"]

    result = explain(new)

    assert result.exit_code == 0, result.output
    assert "None yet. Check that the operator runs and watches this namespace." in result.stdout


def test_one_of_several_saved_pools_is_chosen_by_name(explain):
    other = pool()
    other["metadata"] = other["metadata"] | {"name": "code"}

    assert "holds 2 InferencePools; expected exactly one" in sentence(explain(pool(), other))
    assert "team/code" in explain(pool(), other, words=("code",)).stdout
    assert "no InferencePool video" in sentence(explain(pool(), words=("video",)))


def test_a_status_of_another_shape_names_the_field(explain):
    assert "status.prefill.ready" in sentence(explain(pool(prefill={"ready": "two"})))


def test_a_name_or_a_file_is_needed():
    assert "name a pool, such as `tandem explain qwen`" in sentence(tandem("explain"))


def test_an_unreachable_cluster_is_one_sentence_and_exit_code_1(tmp_path):
    missing = tandem("explain", "chat", "--kubeconfig", str(tmp_path / "none"))

    assert missing.exit_code == 1
    assert missing.stderr == (
        f"tandem explain: no cluster to ask: {tmp_path / 'none'} does not exist; name a kubeconfig"
        " that does, for example in $KUBECONFIG\n"
    )
    assert isinstance(missing.exception, SystemExit)


@pytest.mark.parametrize("named", [None, "", "nowhere/a:nowhere/b"])
def test_without_a_kubeconfig_the_places_that_were_looked_at_are_told_in_one_line(tmp_path, named):
    # The client takes the home folder when it is imported.
    around = {"HOME": str(tmp_path), "PATH": "/usr/bin", "PYTHONPATH": os.pathsep.join(sys.path)}
    if named is not None:
        around["KUBECONFIG"] = named

    result = subprocess.run(
        [sys.executable, "-m", "tandem_operator.cli", "explain", "chat"],
        env=around,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    looked = named or "~/.kube/config"
    assert result.returncode == 1
    assert result.stderr == (
        f"tandem explain: no cluster to ask: {looked} does not exist; name a kubeconfig that"
        " does, for example in $KUBECONFIG\n"
    )


@pytest.mark.parametrize(
    "text", [b"", b"- a list\n", b"contexts: [", b"contexts: 3\n", b"\xff\xfe"]
)
def test_a_file_that_is_no_kubeconfig_is_named(tmp_path, text):
    broken = tmp_path / "kubeconfig"
    broken.write_bytes(text)

    refused = tandem("explain", "chat", "--kubeconfig", str(broken))

    assert refused.exit_code == 1
    assert f"no cluster to ask: {broken} is not a kubeconfig" in refused.stderr
    assert isinstance(refused.exception, SystemExit)


@pytest.fixture(scope="module")
def tandem_that_ran():
    policy = Tandem()
    simulate(make_setup(steady(20.0, 240.0)), policy)
    return policy


def test_every_input_that_the_core_writes_has_a_label(tandem_that_ran):
    written = {name for decision in tandem_that_ran.decisions for name in decision.inputs}

    assert len(written) > 15
    assert written <= set(INPUTS)


def test_tells_the_models_that_were_learned_of_the_engines(explain, tandem_that_ran):
    told = json.loads(
        explain(pool(), memory(memory_to_json(tandem_that_ran.memory)), words=("--json",)).stdout
    )

    prefill = told["learned"]["prefill of u tokens"]
    fixed_ms, per_token_ms = map(float, re.findall(r"[\d.e-]+(?= ms)", prefill)[:2])
    busy_ms = ENGINE.service_s(1500) * 1000.0
    assert fixed_ms + 1500.0 * per_token_ms == pytest.approx(busy_ms, rel=0.1)
    assert "ms x b" in told["learned"]["decode step of b streams"]
    assert told["learned"]["KV cache of a replica"] == "100,000 tokens"


def test_says_where_only_engines_themselves_have_measured_what_they_cost(explain):
    engines = EngineModels().with_start_up(
        Role.PREFILL, StartUp(prefill=((32.0, 0.046), (1024.0, 0.245)))
    )
    before = memory_to_json(Memory(learned=LearnedEngines(engines={"r1": engines})))

    told = json.loads(explain(pool(), memory(before), words=("--json",)).stdout)["learned"]

    assert told["prefill of u tokens"].endswith("(as an engine measured itself at its start)")
    assert "decode step of b streams" not in told


def test_says_which_values_come_from_a_data_sheet_because_none_was_measured(explain):
    prior = Prior(service=(0.04, 0.0002, 1e-6), step=(0.01, 0.00005, 1e-9))
    engines = EngineModels().with_start_up(Role.PREFILL, StartUp(), prior)
    before = memory_to_json(Memory(learned=LearnedEngines(engines={"r1": engines})))

    told = json.loads(explain(pool(), memory(before), words=("--json",)).stdout)["learned"]

    for line in (told["prefill of u tokens"], told["decode step of b streams"]):
        assert "data sheet, not measured yet" in line


def of_gateway():
    return {
        "apiVersion": "inference.networking.k8s.io/v1",
        "kind": "InferencePool",
        "metadata": {"name": "chat", "namespace": "team"},
        "status": {"parents": []},
    }


def about_gateway():
    about = {"apiVersion": "inference.networking.k8s.io/v1", "kind": "InferencePool"}
    return {**event("not ours"), "regarding": {**about, "name": "chat"}}


def test_a_pool_of_the_gateway_api_of_the_same_name_does_not_matter(explain):
    result = explain(of_gateway(), pool(), about_gateway(), event("ours"), words=("chat",))

    assert result.exit_code == 0, result.output
    assert "ours" in result.stdout
    assert "not ours" not in result.stdout


def test_a_file_with_a_pool_of_the_gateway_api_alone_holds_none(explain):
    assert "holds no InferencePool; expected exactly one of tandem-inference.io" in sentence(
        explain(of_gateway())
    )


def elsewhere():
    found = pool(endpoint="http://chat-router.other.svc")
    found["metadata"] |= {"namespace": "other", "uid": "u-2"}
    return found


def test_a_namespace_picks_the_pool_of_that_namespace_and_its_memory(explain):
    strange = memory("{}")
    strange["metadata"]["namespace"] = "other"
    both = (elsewhere(), strange, pool(), memory())

    for words in (("chat", "-n", "team"), ("-n", "team")):
        told = json.loads(explain(*both, words=(*words, "--json")).stdout)
        assert told["namespace"] == "team"
        assert told["memory_fault"] is None
        assert told["learned"]

    assert "team/chat" not in explain(*both, words=("chat", "-n", "other")).stdout


def test_pools_of_one_name_in_two_namespaces_ask_for_one(explain):
    said = sentence(explain(elsewhere(), pool(), words=("chat",)))

    assert "holds 2 InferencePools chat; expected exactly one of tandem-inference.io" in said
    assert "; there are other/chat, team/chat" in said


def test_a_namespace_without_the_pool_names_those_that_there_are(explain):
    said = sentence(explain(pool(), words=("chat", "-n", "nowhere")))

    assert "holds no InferencePool chat in namespace nowhere; expected exactly one" in said
    assert said.endswith("; there are team/chat\n")


@pytest.mark.parametrize("words", [("--context", "x"), ("--kubeconfig", "x")])
def test_options_of_a_cluster_are_refused_beside_a_file(explain, words):
    assert f"{words[0]} needs a cluster; leave out --file" in sentence(explain(pool(), words=words))
