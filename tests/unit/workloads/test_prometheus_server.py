"""The choices of a pool's author about its Prometheus server."""

from dataclasses import replace

import pytest

from tandem_operator.api.v1alpha1.scaling import Metrics
from tandem_operator.workloads.checks.prometheus_server import server_objections
from tandem_operator.workloads.world import InstalledPrometheus
from tests.unit.workloads.cluster import INSTALLATION

OWN = "https://central.monitoring.svc:9090"
WITH_TOKEN = replace(INSTALLATION, prometheus=InstalledPrometheus(url=OWN, token_file="/t"))
WITHOUT_TOKEN = replace(INSTALLATION, prometheus=InstalledPrometheus(url=OWN))
TOKEN = {"tokenSecretRef": {"name": "own"}}
AUTHORITY = {"caConfigMapRef": {"name": "ours"}}


def told(installation, *, source="Auto", **prometheus):
    metrics = {"source": source} | ({"prometheus": prometheus} if prometheus else {})
    found = server_objections(Metrics.model_validate(metrics), installation)
    return [str(each) for each in found]


@pytest.mark.parametrize("installation", [WITH_TOKEN, WITHOUT_TOKEN])
def test_a_pool_needs_no_url_where_the_installation_has_one(installation):
    assert told(installation) == []
    assert told(installation, source="Prometheus") == []


def test_prometheus_alone_needs_a_server():
    [sentence] = told(INSTALLATION, source="Prometheus")

    assert sentence.startswith("metrics.prometheus.url is needed, since the operator was installed")
    assert told(INSTALLATION, tenant="a") == [sentence]
    assert told(INSTALLATION) == []


def test_what_is_written_beside_direct_does_not_matter():
    assert told(INSTALLATION, source="Direct", tenant="a") == []


def test_the_installations_server_is_always_one_of_those_that_are_allowed():
    listed = replace(WITH_TOKEN, prometheus_urls=("http://other:9090",))

    assert told(listed, url=OWN) == []
    assert "write http://other:9090" in told(listed, url="http://third:9090")[0]


def test_a_token_needs_tls():
    assert told(INSTALLATION, url="https://p:9090", **TOKEN) == []
    [sentence] = told(INSTALLATION, url="http://p:9090", **TOKEN)

    assert sentence.startswith("metrics.prometheus.tokenSecretRef needs a server with TLS")


@pytest.mark.parametrize("chosen", [{"tenant": "a"}, AUTHORITY])
def test_a_pool_cannot_choose_tenant_or_authorities_with_the_installations_token(chosen):
    [field] = chosen
    [sentence] = told(WITH_TOKEN, **chosen)

    assert sentence.startswith(f"metrics.prometheus.{field} cannot be chosen with the installation")
    assert told(WITH_TOKEN, url=OWN, **chosen) == [sentence]
    assert told(WITH_TOKEN, **chosen, **TOKEN) == []
    assert told(WITHOUT_TOKEN, **chosen) == []
    assert told(WITH_TOKEN, url="https://other:9090", **chosen) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tokenSecretRef", {"name": "../../secrets/other"}),
        ("caConfigMapRef", {"name": "Ours"}),
        ("tenant", "a\r\nAuthorization: b"),
        ("tenant", ""),
    ],
)
def test_what_cannot_be_a_name_is_refused_by_a_sentence(field, value):
    [sentence] = told(INSTALLATION, url="https://p:9090", **{field: value})

    assert sentence.startswith(f"metrics.prometheus.{field}")
    assert "write for example" in sentence
