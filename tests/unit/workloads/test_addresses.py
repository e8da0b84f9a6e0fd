import pytest

from tandem_operator.workloads.checks.acceptance import objections
from tandem_operator.workloads.checks.addresses import objection, refusal_of
from tandem_operator.workloads.pass_plan import plan
from tandem_operator.workloads.pool_names import PoolName
from tandem_operator.workloads.world import Installation
from tests.unit.workloads.cluster import NOW_S, pool, world

NAME = PoolName("serving", "tiny", "8f0c")
URL = "http://prometheus.monitoring.svc:9090"


def installed(*urls):
    return Installation(
        router_image="r",
        launcher_image="l",
        engine_image_cpu="c",
        engine_image_gpu="g",
        prometheus_urls=urls,
    )


def asking(url):
    return pool({"metrics": {"prometheus": {"url": url}}})


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254",
        "http://[fe80::1]:9090",
        "http://[::ffff:169.254.169.254]",
        "http://100.100.100.200/latest",
        "http://168.63.129.16",
        "http://[fd00:ec2::254]",
        "http://127.0.0.1:8080",
        "http://[::1]:8081",
        "http://0.0.0.0",
        "http://localhost:8080",
        "http://metrics.localhost",
        "https://kubernetes.default.svc",
        "https://kubernetes.default.svc.cluster.local:443",
        "http://224.0.0.1",
        "http://[2002:7f00:1::]",
    ],
)
def test_without_a_list_no_server_is_this_pod_the_node_the_cloud_or_the_api_server(url):
    said = objection(url, allowed=())

    assert said.startswith("metrics.prometheus.url: ")
    assert said.endswith(f"write for example {URL}")


@pytest.mark.parametrize(
    "url",
    [URL, "http://prometheus:9090", "https://10.0.3.4:9090/prom", "http://[fd00:10::7]:9090"],
)
def test_without_a_list_any_other_server_may_be_asked(url):
    assert objection(url, allowed=()) is None


@pytest.mark.parametrize("url", [URL, f"{URL}/", "HTTP://Prometheus.Monitoring.svc:9090"])
def test_with_a_list_what_stands_on_it_is_asked(url):
    assert objection(url, allowed=("http://127.0.0.1:9090", URL)) is None


@pytest.mark.parametrize("url", [f"{URL}/other", "http://prometheus:9090", f"{URL}1", "http://x"])
def test_with_a_list_nothing_else_is_asked_and_the_sentence_offers_what_is(url):
    assert objection(url, allowed=(URL,)) == (
        "metrics.prometheus.url must be one that the operator was installed with; write " + URL
    )


def test_the_api_servers_address_is_refused_wherever_it_is():
    assert refusal_of("10.96.0.1", api_server="10.96.0.1") is not None
    assert refusal_of("10.96.0.2", api_server="10.96.0.1") is None


def test_a_pool_that_names_another_server_is_told_so_and_left_as_it_runs():
    told = plan(world(asking("http://169.254.169.254"), installation=installed()), now_s=NOW_S)

    accepted = next(each for each in told.status["conditions"] if each["type"] == "Accepted")
    assert (accepted["status"], accepted["reason"]) == ("False", "InvalidSpec")
    assert "belongs to the node or its cloud provider" in accepted["message"]
    assert told.children == ()


def test_a_pool_without_prometheus_needs_no_server_of_the_list():
    from tandem_operator.api import parse_pool

    assert objections(parse_pool(pool()).spec, installed(URL), name=NAME) == ()
