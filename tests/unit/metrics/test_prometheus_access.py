"""The token, tenant and authorities of requests to a Prometheus, and who must not see them."""

import json
import logging
from dataclasses import replace

import aiohttp
import pytest
from aiohttp import web

from tandem_operator.api.v1alpha1.scaling import Metrics
from tandem_operator.metrics import prometheus_access
from tandem_operator.metrics.collect import Collector
from tandem_operator.metrics.installed_prometheus import installed_prometheus
from tandem_operator.metrics.prometheus_access import PrometheusAccess
from tandem_operator.metrics.scrape_budget import NoAnswerError, ScrapeBudget
from tandem_operator.metrics.sessions import servers_session
from tandem_operator.workloads.world import InstalledPrometheus
from tests.unit.metrics.servers import Values, access, serving
from tests.unit.metrics.test_direct import ENGINE_PAGE
from tests.unit.metrics.test_prometheus import NOW_S, Prometheus, targets
from tests.unit.workloads.cluster import INSTALLATION

TOKEN = "s3cr3t-t0ken"
OTHER = "https://other:9090"


def installed(url, **more):
    return replace(INSTALLATION, prometheus=InstalledPrometheus(url=url, **more))


def asking(**prometheus):
    return Metrics.model_validate({"prometheus": prometheus} if prometheus else {})


async def found(installation, metrics, **held):
    async with aiohttp.ClientSession() as session:
        asked = access(session, installation, **held)
        return await asked.of(metrics, namespace="ns", budget=ScrapeBudget(pods=1))


@pytest.fixture
def token_file(tmp_path):
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    return str(file)


async def test_a_pool_that_says_nothing_is_read_from_the_installations_server(token_file):
    installation = installed(
        "https://central:9090", token_file=token_file, headers={"X-Scope-OrgID": "all"}
    )

    server = await found(installation, asking())

    assert server.url == "https://central:9090"
    assert server.headers == {"X-Scope-OrgID": "all", "Authorization": f"Bearer {TOKEN}"}


async def test_a_token_that_was_replaced_is_the_one_that_is_sent(token_file, tmp_path):
    installation = installed("https://central:9090", token_file=token_file)
    await found(installation, asking())
    (tmp_path / "token").write_text("another")

    server = await found(installation, asking())

    assert server.headers["Authorization"] == "Bearer another"


async def test_readers_differ_by_token_and_tenant_and_reveal_neither(token_file):
    installation = installed("https://central:9090", token_file=token_file)

    ours = (await found(installation, asking())).asker
    open_to_all = installed("https://central:9090")
    others = [await found(open_to_all, asking(**named)) for named in ({}, {"tenant": "a"})]

    assert ours == (await found(installation, asking())).asker
    assert len({ours, *(server.asker for server in others)}) == 3
    assert TOKEN not in ours


async def test_a_server_that_a_pool_names_gets_nothing_of_the_installations(token_file, tmp_path):
    (tmp_path / "ca").write_text("nobody reads it")
    installation = installed(
        "https://central:9090",
        token_file=token_file,
        authority_file=str(tmp_path / "ca"),
        headers={"X-Scope-OrgID": "all"},
    )

    server = await found(installation, asking(url=OTHER))

    assert (server.url, server.headers, server.authorities) == (OTHER, {}, None)


async def test_a_pool_that_names_the_installations_server_is_read_with_its_token(token_file):
    installation = installed("https://central:9090", token_file=token_file)

    server = await found(installation, asking(url="https://Central:9090/"))

    assert server.headers["Authorization"] == f"Bearer {TOKEN}"


async def test_a_pool_brings_a_token_and_a_tenant_of_its_own(token_file):
    installation = installed(
        "https://central:9090", token_file=token_file, headers={"x-scope-orgid": "all", "X-A": "1"}
    )

    server = await found(
        installation, asking(tenant="team-a", tokenSecretRef={"name": "own"}), own=b" mine\n"
    )

    assert server.headers == {
        "X-A": "1",
        "X-Scope-OrgID": "team-a",
        "Authorization": "Bearer mine",
    }


async def test_a_source_of_pods_alone_asks_no_server(token_file):
    installation = installed("https://central:9090", token_file=token_file)

    assert await found(installation, Metrics(source="Direct")) is None
    assert await found(INSTALLATION, Metrics()) is None


async def test_only_what_the_installation_names_is_asked_by_the_open_session():
    async with servers_session(named=True) as named, servers_session(named=False) as guarded:

        async def session_of(url, installation):
            asked = PrometheusAccess(
                installation, values=Values(), open_session=named, guarded_session=guarded
            )
            budget = ScrapeBudget(pods=1)
            return (await asked.of(asking(url=url), namespace="ns", budget=budget)).session

        own = installed("http://central:9090")
        assert await session_of("http://central:9090", own) is named
        assert await session_of(OTHER, own) is guarded
        assert await session_of(OTHER, replace(INSTALLATION, prometheus_urls=(OTHER,))) is named


@pytest.mark.parametrize(
    ("metrics", "installation"),
    [
        (asking(url="http://other:9090", tokenSecretRef={"name": "own"}), INSTALLATION),
        (asking(url="http://169.254.169.254"), INSTALLATION),
        (asking(url=OTHER), replace(INSTALLATION, prometheus_urls=("https://central:9090",))),
        (asking(tenant="a"), installed("https://central:9090", token_file="/t")),
        (asking(url=OTHER, tokenSecretRef={"name": "../x"}), INSTALLATION),
    ],
)
async def test_a_spec_that_is_refused_has_no_server_asked(metrics, installation):
    with pytest.raises(NoAnswerError, match=r"Prometheus is not asked: metrics\.prometheus\."):
        await found(installation, metrics, own=b"mine")


@pytest.mark.parametrize(
    "token", [b"", b"two words", b"x\r\nX-Scope-OrgID: b", "t\u00f6ken".encode(), b"x" * 20_000]
)
async def test_what_cannot_be_a_token_is_not_sent_and_not_told(token):
    with pytest.raises(NoAnswerError, match="its token is empty, or holds more than") as told:
        await found(INSTALLATION, asking(url=OTHER, tokenSecretRef={"name": "own"}), own=token)

    assert not token.strip() or token.decode() not in str(told.value)


@pytest.mark.parametrize(
    ("bundle", "why"),
    [
        (b"", "are not in PEM"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "are not in PEM"),
        (b"x" * (prometheus_access.LARGEST_BUNDLE_BYTES + 1), "are larger than"),
    ],
)
async def test_unreadable_authorities_trust_no_server_instead_of_every_server(bundle, why):
    with pytest.raises(NoAnswerError, match=why):
        await found(INSTALLATION, asking(url=OTHER, caConfigMapRef={"name": "ours"}), ours=bundle)


@pytest.mark.parametrize(
    ("metrics", "why"),
    [
        (asking(url=OTHER, tokenSecretRef={"name": "own"}), "may not read Secret own"),
        (asking(url=OTHER, caConfigMapRef={"name": "ours"}), "may not read ConfigMap ours"),
    ],
)
async def test_without_what_it_takes_the_server_is_not_asked_and_the_pods_are(metrics, why):
    async with (
        serving({"/metrics": ENGINE_PAGE}) as (port, _),
        aiohttp.ClientSession() as session,
    ):
        collector = Collector(session, servers=access(session))
        pool = targets(engine_port=port, routers=False)
        collected = await collector.collect(pool, metrics, now_s=NOW_S)

    assert why in collected.fault
    assert collected.passed_over == collected.fault
    assert (collected.source, len(collected.engines)) == ("Direct", 1)


async def test_a_token_file_that_is_not_there_is_a_fault():
    with pytest.raises(NoAnswerError, match="/nowhere: No such file"):
        await found(installed("https://central:9090", token_file="/nowhere"), asking())


async def test_a_redirect_takes_the_token_nowhere(token_file):
    async with serving({"/stolen": "{}"}) as (elsewhere, stolen):

        def redirects(_):
            raise web.HTTPTemporaryRedirect(f"http://127.0.0.1:{elsewhere}/stolen")

        collected = await collected_from(redirects, token_file)

    assert stolen == []
    assert "HTTP 307, a redirect, which is not followed," in collected.fault


def echoes_as_body(request):
    return web.Response(text=request.headers["Authorization"], status=200)


def echoes_as_value(request):
    sent = request.headers["Authorization"].removeprefix("Bearer ")
    return web.json_response({"data": {"result": [{"metric": {}, "value": [1.0, sent]}]}})


def echoes_as_label(request):
    sent = request.headers["Authorization"].removeprefix("Bearer ")
    return web.json_response({"data": {"result": [{"metric": {sent: sent}, "value": [sent, "1"]}]}})


def echoes_as_reason(request):
    return web.Response(status=401, reason=request.headers["Authorization"])


@pytest.mark.parametrize(
    "answer",
    [echoes_as_body, echoes_as_value, echoes_as_label, echoes_as_reason, Prometheus(age_s=900.0)],
)
async def test_no_token_is_in_what_is_told_or_logged(answer, token_file, caplog):
    caplog.set_level(logging.DEBUG)

    collected = await collected_from(answer, token_file)

    assert collected.problems
    assert TOKEN not in repr(collected)
    assert TOKEN not in caplog.text


async def test_no_token_is_in_the_text_of_a_server(token_file):
    server = await found(installed("https://central:9090", token_file=token_file), asking())

    assert TOKEN not in repr(server)


async def test_a_refused_token_is_told_as_one(token_file):
    collected = await collected_from(lambda _: web.Response(status=401), token_file)

    assert collected.fault == (
        "Prometheus: HTTP 401, since it takes no request without the right token,"
        " from /api/v1/query"
    )


async def collected_from(answer, token_file):
    """Return what is collected of a pool through the installation's server with its token."""
    async with (
        serving({"/api/v1/query": answer}) as (port, seen),
        aiohttp.ClientSession() as session,
    ):
        own = installed(f"http://127.0.0.1:{port}", token_file=token_file)
        collector = Collector(session, servers=access(session, own))
        pool = targets(routers=False)
        collected = await collector.collect(pool, Metrics(source="Prometheus"), now_s=NOW_S)
        assert seen
    return collected


def test_the_option_is_what_the_chart_writes():
    text = json.dumps(
        {"url": "https://p:9090", "headers": {"X-A": "1"}, "tokenFile": "/t", "authorityFile": "/a"}
    )

    assert installed_prometheus(text) == InstalledPrometheus(
        url="https://p:9090",
        headers={"X-A": "1"},
        token_file="/t",
        authority_file="/a",
    )


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ({"url": "p:9090"}, "url: "),
        ({"url": "https://me:word@p"}, "url: "),
        ({"url": "http://p", "tokenFile": "/t"}, "url: a token needs TLS"),
        ({"url": "https://p", "headers": {"A B": "1"}}, "A B is no header"),
        ({"url": "https://p", "headers": {"A": "1\r\nB: 2"}}, "A is no header"),
        ({"url": "https://p", "headers": {"authorization": "x"}}, "use tokenFile"),
        ({"url": "https://p", "token": "x"}, "token: "),
    ],
)
def test_a_wrong_option_is_refused_by_a_sentence(option, why):
    with pytest.raises(Exception, match=why):
        installed_prometheus(json.dumps(option))
