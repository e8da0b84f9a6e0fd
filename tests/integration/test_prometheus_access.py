"""The operator reads a real Prometheus that is behind TLS, a token and a tenant."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.controlplane import ControlPlane
from tandem_engine.router.accounting.router_metrics import RouterMetrics
from tandem_operator.api.v1alpha1.scaling import Metrics
from tandem_operator.core.role import Role
from tandem_operator.kube.client import Kube, connect
from tandem_operator.kube.named_values import NamespaceValues
from tandem_operator.metrics.collect import Collected, Collector
from tandem_operator.metrics.prometheus_access import PrometheusAccess
from tandem_operator.metrics.sessions import pods_session, servers_session
from tandem_operator.metrics.source import EngineTarget, RouterTarget, Targets
from tandem_operator.workloads.world import Installation, InstalledPrometheus
from tests.integration.prometheus_server import Gateway, gateway, running, scrape_config
from tests.unit.metrics.servers import serving
from tests.unit.metrics.test_direct import ENGINE_PAGE
from tests.unit.workloads.cluster import INSTALLATION

TOKEN, TENANT, NAMESPACE, ACCOUNT = "t0ken-of-central", "team-a", "reading", "operator"
FROM_ANYWHERE = Metrics()
TARGETS = Targets(
    namespace=NAMESPACE,
    pool="tiny",
    engines=(EngineTarget("e-1", Role.DECODE, "127.0.0.1", 9),),
    routers=(RouterTarget("r-1", "127.0.0.1", 9),),
)


@contextlib.asynccontextmanager
async def scraped_behind_a_gateway(
    folder: Path, plane: ControlPlane
) -> AsyncIterator[tuple[Gateway, Path]]:
    """Run a Prometheus behind its gateway, with the gateway's authority; it scrapes a pool."""
    certs = plane.certificate_authority.parent
    page = RouterMetrics()
    page.ttft.observe(0.3)
    page.tpot.observe(0.02)
    async with (
        serving({"/metrics": ENGINE_PAGE}) as (engine, _),
        serving({"/metrics": lambda _: page.exposition().decode()}) as (router, _),
    ):
        config = scrape_config({"e-1": engine, "r-1": router}, namespace=NAMESPACE)
        server = contextlib.ExitStack()
        url = await asyncio.to_thread(server.enter_context, running(folder, config))
        try:
            made = Gateway(url, token=TOKEN, tenant=TENANT)
            async with gateway(made, (certs / "apiserver.crt", certs / "apiserver.key")) as behind:
                yield behind, plane.certificate_authority
        finally:
            await asyncio.to_thread(server.close)


async def collected(
    installation: Installation, kube: Kube, wanted: Metrics = FROM_ANYWHERE
) -> Collected:
    async with (
        pods_session() as pods,
        servers_session(named=True) as open_session,
        servers_session(named=False) as guarded_session,
    ):
        servers = PrometheusAccess(
            installation,
            values=NamespaceValues(kube, clock=lambda: 0.0),
            open_session=open_session,
            guarded_session=guarded_session,
        )
        now_s = asyncio.get_running_loop().time()
        return await Collector(pods, servers=servers).collect(TARGETS, wanted, now_s=now_s)


async def until_read(installation: Installation, kube: Kube, wanted: Metrics) -> Collected:
    """Return the first whole metrics of the wanted kind, or else the last ones.

    On a busy machine a scrape can come too late, and leaves a gap.
    """
    for _ in range(300):
        found = await collected(installation, kube, wanted)
        if found.source == "Prometheus" and found.latency is not None and found.engines:
            break
        await asyncio.sleep(0.5)
    return found


@pytest.fixture
async def kube(control_plane: ControlPlane) -> AsyncIterator[Kube]:
    """The operator's client: it may do no more in this namespace than a test grants."""
    head = {"metadata": {"name": NAMESPACE}}
    for body in (
        {"apiVersion": "v1", "kind": "Namespace", **head},
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": ACCOUNT, "namespace": NAMESPACE},
        },
    ):
        control_plane.run_kubectl("apply", "-f", "-", stdin=json.dumps(body))
    config = control_plane.service_account_kubeconfig(NAMESPACE, ACCOUNT)
    found = await connect(config_file=str(config))
    yield found
    await found.close()


def installed(behind: Gateway, authority: Path | None, folder: Path) -> Installation:
    (folder / "token").write_text(f"{TOKEN}\n")
    own = InstalledPrometheus(
        url=f"https://127.0.0.1:{behind.port}",
        headers={"X-Scope-OrgID": TENANT},
        token_file=str(folder / "token"),
        authority_file=None if authority is None else str(authority),
    )
    return replace(INSTALLATION, prometheus=own)


async def test_a_pool_that_says_nothing_is_read_with_the_installations_token(
    tmp_path: Path, control_plane: ControlPlane, kube: Kube, caplog: pytest.LogCaptureFixture
) -> None:
    async with scraped_behind_a_gateway(tmp_path, control_plane) as (behind, authority):
        installation = installed(behind, authority, tmp_path)
        found = await until_read(installation, kube, Metrics())
        unknown = await collected(installed(behind, None, tmp_path), kube)
        (tmp_path / "token").write_text("another")
        refused = await collected(installation, kube)
        behind.redirect = "https://elsewhere.example.com/"
        sent_away = await collected(installed(behind, authority, tmp_path), kube)

    assert (found.source, found.fault) == ("Prometheus", None)
    assert [(each.pod, each.running) for each in found.engines] == [("e-1", 3.0)]
    assert found.latency is not None
    assert "certificate is refused: self-signed certificate" in (unknown.fault or "")
    assert "HTTP 401, since it takes no request without the right token" in (refused.fault or "")
    assert set(behind.refused) == {401}
    assert "a redirect, which is not followed" in (sent_away.fault or "")
    assert TOKEN not in caplog.text
    assert TOKEN not in repr((found, unknown, refused, sent_away))


async def test_a_pools_own_token_is_read_once_its_owner_grants_that_one_secret(
    tmp_path: Path, control_plane: ControlPlane, kube: Kube
) -> None:
    plane = control_plane
    async with scraped_behind_a_gateway(tmp_path, plane) as (behind, authority):
        url = f"https://127.0.0.1:{behind.port}"
        installation = replace(INSTALLATION, prometheus_urls=(url,))
        create(plane, "secret", "generic", "reader", f"--from-literal=token={TOKEN}")
        create(plane, "secret", "generic", "other", "--from-literal=token=x")
        create(plane, "configmap", "ours", f"--from-file=ca.crt={authority}")
        # The chart's own role: docs/how-to/connect-prometheus.md shows the other two commands.
        create(plane, "role", "maps", "--verb=get", "--resource=configmaps")
        create(plane, "rolebinding", "maps", "--role=maps", f"--serviceaccount={WHO}")

        before = await collected(installation, kube, wanted(url))
        create(plane, "role", "t", "--verb=get", "--resource=secrets", "--resource-name=reader")
        create(plane, "rolebinding", "t", "--role=t", f"--serviceaccount={WHO}")
        found = await until_read(installation, kube, wanted(url))
        other = await collected(installation, kube, wanted(url, secret="other"))
        stranger = await collected(installation, kube, wanted(url, tenant="team-b"))

    may_not = "the operator may not read Secret {}; grant it `get` of this one"
    assert before.fault == f"Prometheus: {may_not.format('reader')}"
    assert (found.source, [each.running for each in found.engines]) == ("Prometheus", [3.0])
    assert other.fault == f"Prometheus: {may_not.format('other')}"
    assert "HTTP 403, since the token or the tenant may not read it" in (stranger.fault or "")


WHO = f"{NAMESPACE}:{ACCOUNT}"


def create(plane: ControlPlane, *words: str) -> None:
    plane.run_kubectl("create", "-n", NAMESPACE, *words)


def wanted(url: str, *, secret: str = "reader", tenant: str = TENANT) -> Metrics:
    asked: dict[str, Any] = {
        "url": url,
        "tenant": tenant,
        "tokenSecretRef": {"name": secret},
        "caConfigMapRef": {"name": "ours"},
    }
    return Metrics.model_validate({"prometheus": asked})
