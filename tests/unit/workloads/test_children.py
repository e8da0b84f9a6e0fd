"""The objects around the pods, as docs/reference/contracts.md names them."""

import json
from dataclasses import replace

import pytest

from tandem_contracts.router_settings import TracingSettings
from tandem_engine.router.settings_in_force import parse_settings
from tandem_operator.api import parse_pool
from tandem_operator.core.memory import Memory
from tandem_operator.core.sizing.decode_speed import TimedDecodePace
from tandem_operator.workloads.pass_plan import plan
from tandem_operator.workloads.pool_spec import policy_of
from tests.unit.workloads.cluster import INSTALLATION, NOW, NOW_S, child, pod, pool, running, world


def planned(*changes, **installed):
    installation = replace(INSTALLATION, **installed)
    return plan(world(pool(*changes), installation=installation), now_s=NOW_S)


def strategy_of(made, role):
    return child(made.children, "Deployment", f"tiny-{role}")["spec"]["strategy"]["rollingUpdate"]


def names(made, kind):
    return {each["metadata"]["name"] for each in made.children if each["kind"] == kind}


def test_children_have_the_names_of_the_contract():
    made = planned(pod_monitors=True)

    per_component = {"tiny-prefill", "tiny-decode", "tiny-router"}
    for kind in ("Deployment", "PodDisruptionBudget", "ServiceAccount"):
        assert names(made, kind) == per_component
    assert names(made, "Service") == per_component | {"tiny-router-internal"}
    assert names(made, "Role") == names(made, "RoleBinding") == {"tiny-router"}
    assert names(made, "ConfigMap") == {"tiny-router"}
    assert names(made, "PodMonitor") == {"tiny"}
    assert made.memory_object["metadata"]["name"] == "tiny-memory"


def test_every_child_is_collected_with_its_pool():
    made = planned()

    for each in (*made.children, made.memory_object):
        (owner,) = each["metadata"]["ownerReferences"]
        assert owner["uid"] == "8f0c"
        assert owner["controller"] is True
        assert each["metadata"]["labels"]["tandem-inference.io/pool"] == "tiny"
        assert each["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "tandem"


def test_replicas_stand_in_no_object_of_the_main_manager():
    for each in planned().children:
        assert "replicas" not in each.get("spec", {})


def test_a_pod_monitor_is_made_only_where_the_kind_exists():
    assert names(planned(pod_monitors=False), "PodMonitor") == set()


def test_the_longest_pool_name_fits_its_children():
    body = pool()
    body["metadata"]["name"] = "p" * 40

    made = plan(world(body), now_s=NOW_S)

    assert made.decision is not None
    assert max(len(each["metadata"]["name"]) for each in made.children) <= 63
    assert all(
        len(value) <= 63 for each in made.children for value in each["metadata"]["labels"].values()
    )


def test_the_router_may_read_pods_their_owners_and_its_own_settings_and_write_nothing():
    (role,) = [each for each in planned().children if each["kind"] == "Role"]

    granted = {(each["resources"][0], verb) for each in role["rules"] for verb in each["verbs"]}

    reads = {(kind, verb) for kind in ("pods", "configmaps") for verb in ("get", "list", "watch")}
    assert granted == reads | {("replicasets", "list"), ("replicasets", "watch")}
    (settings,) = [each for each in role["rules"] if each["resources"] == ["configmaps"]]
    assert settings["resourceNames"] == ["tiny-router"]


def test_services_select_the_pods_of_one_component():
    made = planned()

    for component in ("prefill", "decode", "router"):
        selector = child(made.children, "Service", f"tiny-{component}")["spec"]["selector"]
        deployed = child(made.children, "Deployment", f"tiny-{component}")["spec"]
        labels = deployed["template"]["metadata"]["labels"]
        assert selector.items() <= labels.items()
        assert deployed["selector"]["matchLabels"] == selector
        others = {"prefill", "decode", "router"} - {component}
        assert selector["tandem-inference.io/role"] not in others


def test_service_ports_lead_to_named_container_ports():
    made = planned()
    services = [each for each in made.children if each["kind"] == "Service"]

    for service in services:
        component = service["spec"]["selector"]["tandem-inference.io/role"]
        deployed = child(made.children, "Deployment", f"tiny-{component}")["spec"]["template"]
        ports = {port["name"] for port in deployed["spec"]["containers"][0]["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports


def test_routers_that_are_not_ready_still_tell_their_arrivals():
    service = child(planned().children, "Service", "tiny-router-internal")["spec"]

    assert service["publishNotReadyAddresses"] is True
    assert service["clusterIP"] == "None"
    assert [port["port"] for port in service["ports"]] == [9100]


def test_the_router_reads_the_settings_that_are_written():
    slo = {"ttft": {"target": "1.5s", "perThousandPromptTokens": "100ms"}, "attainment": "99.5%"}
    limits = {"choices": 3, "bodyElements": 2048, "inFlightBodyBytes": 5_000_000}
    router = {"cacheSaltHeader": "X-Tenant-Id", "limits": limits, "requestLog": "Missed"}
    router["tracing"] = {"endpoint": "http://otel.observability:4318", "sampling": "12.5%"}
    made = plan(world(pool({"slo": slo, "router": router}, generation=7)), now_s=NOW_S)

    text = child(made.children, "ConfigMap", "tiny-router")["data"]["router.json"]
    settings = parse_settings(text)

    assert settings.generation == 7
    assert settings.models == ("tiny",)
    assert settings.max_model_len == 2048
    assert settings.slo.ttft_bound_s(2000) == pytest.approx(1.7)
    assert settings.slo.tpot_s == 0.025
    assert settings.cache_salt_header == "X-Tenant-Id"
    assert settings.request_log == "missed"
    assert settings.tracing == TracingSettings(
        endpoint="http://otel.observability:4318", sampling_ratio=0.125
    )
    assert (settings.limits.choices, settings.limits.body_elements) == (3, 2048)
    assert settings.limits.in_flight_body_bytes == 5_000_000
    assert settings.slo.attainment == pytest.approx(0.995)
    assert json.loads(text).keys() == {
        "schema", "pool", "generation", "models", "max_model_len", "wake_s", "slo", "classes",
        "limits", "timeouts", "kv", "decode", "prefix_placement", "cache_salt_header",
        "request_log", "tracing",
    }  # fmt: skip
    assert json.loads(text)["timeouts"] == {
        "connect_s": 1, "prefill_s": 60, "first_token_s": 120, "idle_s": 60, "request_s": 600,
        "head_s": 10, "body_s": 10,
    }  # fmt: skip


def test_the_router_reads_the_tenants_that_are_written():
    digest = "sha256:" + 64 * "0"
    acme = {"name": "acme", "keys": [digest], "weight": 3, "tokensPerMinute": 1000}
    tenants = {"header": "X-Tenant-Id", "named": [acme], "requestsPerMinute": 60}

    told = settings_with(None, {"router": {"tenants": tenants | {"others": "Shared"}}}).tenants

    assert (told.header, told.others) == ("X-Tenant-Id", "shared")
    assert (told.requests_per_minute, told.tokens_per_minute) == (60, None)
    (named,) = told.named
    assert (named.name, named.keys, named.weight) == ("acme", (digest,), 3)
    assert (named.requests_per_minute, named.tokens_per_minute) == (None, 1000)


PACE = TimedDecodePace((0.0051234567, 0.0001, 0.0), 123_456.7, 16, output_tokens=98.7)


def settings_with(pace, *changes):
    """Return the routers' settings where the memory holds this pace of a decode pod."""
    made = plan(world(pool(*changes), memory=Memory(pace=pace)), now_s=NOW_S)
    return parse_settings(child(made.children, "ConfigMap", "tiny-router")["data"]["router.json"])


def test_the_routers_are_told_how_fast_a_decode_pod_is():
    told = settings_with(PACE).decode

    assert told.step_s == (0.005123, 0.0001, 0.0)
    assert (told.kv_capacity_tokens, told.max_num_seqs, told.routers) == (123_457, 16, 1)
    assert told.output_tokens == 99
    assert settings_with(PACE, {"router": {"minReplicas": 3}}).decode.routers == 3
    assert settings_with(None).decode is None


@pytest.mark.parametrize(
    ("router", "gate", "overflow"),
    [
        ({}, True, True),
        ({"decodeAdmission": "Unlimited"}, False, True),
        ({"prefillOverflow": "Never"}, True, False),
        ({"decodeAdmission": "Unlimited", "prefillOverflow": "Never"}, False, False),
    ],
)
def test_sizing_counts_on_what_the_routers_are_told_to_do(router, gate, overflow):
    told = settings_with(PACE, {"router": router}).decode
    insurance = policy_of(parse_pool(pool({"router": router})).spec).insurance

    assert (insurance.decode_gate, insurance.overflow) == (gate, overflow)
    if gate or overflow:
        assert (told.gate, told.overflow) == (gate, overflow)
    else:
        assert told is None


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({}, True),
        ({"router": {"prefillPlacement": "LeastLoaded"}}, False),
        # There is nothing to find.
        ({"engine": {"prefixCaching": False}}, False),
        ({"prefill": {"engine": {"prefixCaching": False}}}, False),
    ],
)
def test_routers_are_told_whether_to_choose_prefill_pods_by_their_caches(spec, told):
    assert settings_with(PACE, spec).prefix_placement is told


def test_pods_that_leave_hold_their_gpus_and_leave_no_room_to_surge():
    budget = {"scaling": {"gpuBudget": 4}}
    live = running(budget)
    leaving = [pod(live, role, 7, deletionTimestamp=NOW) for role in ("prefill", "decode")]

    before, while_they_leave = (
        plan(replace(live, pods=(*live.pods, *more)), now_s=NOW_S) for more in ((), leaving)
    )

    for role in ("prefill", "decode"):
        assert strategy_of(before, role)["maxSurge"] == 1
        assert strategy_of(while_they_leave, role) == {"maxSurge": 0, "maxUnavailable": 1}


@pytest.mark.parametrize(
    ("budget", "surging"),
    [
        (None, {"prefill", "decode"}),
        (4, {"prefill", "decode"}),
        (3, {"prefill"}),
        (2, set()),
    ],
)
def test_a_rollout_surges_only_where_the_budget_has_room(budget, surging):
    made = planned({"scaling": {"gpuBudget": budget}} if budget else {})

    for role in ("prefill", "decode"):
        surge = int(role in surging)
        assert strategy_of(made, role) == {"maxSurge": surge, "maxUnavailable": 1 - surge}
