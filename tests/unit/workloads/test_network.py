"""The NetworkPolicies of a pool, and the connections that they allow."""

from dataclasses import replace

import pytest

from tandem_operator.options import options_from
from tandem_operator.workloads.pass_plan import plan
from tandem_operator.workloads.world import Network
from tests.unit.workloads.cluster import INSTALLATION, NOW_S, pool, world
from tests.unit.workloads.reach import Peer, may_reach
from tests.unit.workloads.reachable import CASES, DECODE, METADATA, OUTSIDE, TENANT, Case

MONITORING = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
NETWORK = Network(operator_namespace="tandem-system", metrics_from=(MONITORING,))
MIRROR = Peer("a mirror of the Hub", "10.9.0.1", "mirrors", {"app": "mirror"})
HUB = {"model": {"source": {"image": None, "huggingFace": {"repo": "acme/llama"}}}}


def policies(*changes, network=NETWORK):
    installation = replace(INSTALLATION, network=network)
    planned = plan(world(pool(*changes), installation=installation), now_s=NOW_S)
    assert planned.children
    return [each for each in planned.children if each["kind"] == "NetworkPolicy"]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_policies_allow_a_connection_to_a_pool_or_not(case: Case):
    made = policies()

    assert may_reach(made, case.source, case.target, case.port, case.protocol) == case.allowed


def test_engines_that_download_weights_reach_the_web_and_no_more():
    made = policies(HUB)

    assert may_reach(made, DECODE, OUTSIDE, 443)
    assert may_reach(made, DECODE, OUTSIDE, 80)
    assert not may_reach(made, DECODE, OUTSIDE, 5600)
    assert not may_reach(made, DECODE, TENANT, 8000)


def test_an_installation_adds_readers_of_metrics_and_targets_of_engines():
    mirrors = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "mirrors"}}}
    rule = {"to": [mirrors], "ports": [{"protocol": "TCP", "port": 5000}]}
    network = Network(operator_namespace="ops", metrics_from=(), engine_egress=(rule,))
    made = policies(network=network)

    assert may_reach(made, DECODE, MIRROR, 5000)
    assert not may_reach(made, DECODE, METADATA, 5000)
    # Without a peer the rule lets in no one, not everyone.
    assert not may_reach(made, TENANT, DECODE, 8000)
    operator = Peer("o", "10.2.0.1", "ops", {"app.kubernetes.io/name": "tandem"})
    labels = {**operator.labels, "app.kubernetes.io/component": "operator"}
    assert may_reach(made, replace(operator, labels=labels), DECODE, 8001)


def test_an_installation_or_a_pool_may_go_without():
    assert policies(network=None) == []
    assert policies({"networkPolicies": "External"}) == []


def test_policies_of_a_pool_that_goes_without_are_pruned():
    installation = replace(INSTALLATION, network=NETWORK)
    kept = {
        mode: plan(
            world(pool({"networkPolicies": mode}), installation=installation), now_s=NOW_S
        ).keep
        for mode in ("Managed", "External")
    }

    assert ("NetworkPolicy", "tiny-decode") in kept["Managed"]
    assert ("NetworkPolicy", "tiny-decode") not in kept["External"]


def test_the_operator_is_where_its_lease_is():
    options = options_from(["--lease-namespace=ops", '--metrics-from=[{"podSelector": {}}]'])

    assert options.installation.network == Network(
        operator_namespace="ops", metrics_from=({"podSelector": {}},)
    )
    assert options_from(["--no-network-policies"]).installation.network is None


@pytest.mark.parametrize("given", ["{}", "[1]", "nothing", '"x"'])
def test_peers_that_are_no_list_of_objects_are_refused_by_name(given, capsys):
    with pytest.raises(SystemExit):
        options_from([f"--metrics-from={given}"])

    assert "--metrics-from" in capsys.readouterr().err
