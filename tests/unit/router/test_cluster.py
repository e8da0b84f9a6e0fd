"""Pods and settings from the Kubernetes API, also while it misbehaves."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tandem_engine.router.discovery.kubernetes_discovery import ClusterSource, endpoint_of
from tandem_engine.router.discovery.list_and_watch import ApiServer
from tandem_engine.router.peers.killers import Killers
from tandem_engine.router.peers.telling import Peers
from tandem_engine.router.pods.fleet import EnginePods
from tandem_engine.router.pods.pod import Role
from tandem_engine.router.settings_in_force import SettingsHolder
from tests.unit.router.fake_api_server import KINDS, FakeApiServer, config_map, pod, replica_set
from tests.unit.router.pool import settings_document, until


class Followed:
    """A router's view of a fake API server."""

    def __init__(self, server: FakeApiServer, token_path: Path) -> None:
        self.server = server
        self.token_path = token_path
        self.fleet = EnginePods(asyncio.get_running_loop().time)
        self.settings = SettingsHolder()
        clock = asyncio.get_running_loop().time
        killers = Killers(clock, pool_key=None)
        self.peers = Peers(killers=killers, pool_key=None, own_name="tiny-router-me", clock=clock)

    def usable(self) -> list[str]:
        return sorted(each.name for role in Role for each in self.fleet.usable(role))

    async def see(self, *names: str) -> None:
        await until(lambda: self.usable() == sorted(names))


@contextlib.asynccontextmanager
async def following(
    seen: Followed, session: aiohttp.ClientSession, tmp_path: Path
) -> AsyncIterator[None]:
    """Run a router's watches of the server until the end of the block."""
    url = f"http://127.0.0.1:{seen.server.port}"
    source = ClusterSource(
        session=session,
        server=ApiServer(url, seen.token_path, tmp_path / "ca"),
        namespace="team-a",
        pool="tiny",
        settings=seen.settings,
        fleet=seen.fleet,
        peers=seen.peers,
    )
    tasks = [asyncio.create_task(watch.run()) for watch in source.watches]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
async def followed(tmp_path: Path) -> AsyncIterator[Followed]:
    server = await FakeApiServer().start()
    token_path = tmp_path / "token"
    token_path.write_text("first-token\n")
    server.put("configmaps", config_map(json.dumps(settings_document())))
    for role in Role:
        server.put("replicasets", replica_set(role))
    server.put("pods", pod("p0"))
    server.put("pods", pod("d0"))
    seen = Followed(server, token_path)
    async with aiohttp.ClientSession() as session, following(seen, session, tmp_path):
        await seen.see("d0", "p0")
        await until(lambda: seen.settings.current is not None and server.watching())
        yield seen
    await server.stop()


async def test_only_the_pools_own_objects_are_asked_for(followed: Followed) -> None:
    selectors = {
        "pods": {"labelSelector": "tandem-inference.io/pool=tiny"},
        "replicasets": {"labelSelector": "tandem-inference.io/pool=tiny"},
        "configmaps": {"fieldSelector": "metadata.name=tiny-router"},
    }

    assert {kind for kind, _ in followed.server.queries} == set(selectors)
    for kind, query in followed.server.queries:
        assert query.items() >= selectors[kind].items()


async def test_pods_come_and_go_as_the_watch_says(followed: Followed) -> None:
    server = followed.server

    server.put("pods", pod("d1"))
    await followed.see("d0", "d1", "p0")
    server.put("pods", pod("d0", leaving=True))
    await followed.see("d1", "p0")
    server.put("pods", pod("p0", ready=False))
    await followed.see("d1")
    server.delete("pods", "d1")
    await followed.see()


@pytest.mark.parametrize(
    "stranger",
    [
        pod("d9", owner=None),
        pod("d9", owner="a-guess"),
        pod("d9", owner="prefill-set"),
        pod("d9", owner="other-set"),
    ],
    ids=["made by hand", "of no ReplicaSet", "of the other role's", "of another Deployment"],
)
async def test_a_pod_that_only_has_the_pools_labels_gets_no_request(
    followed: Followed, stranger: dict[str, Any]
) -> None:
    server = followed.server
    server.put("replicasets", replica_set("decode", uid="other-set", deployment="other"))

    server.put("pods", stranger)
    server.put("pods", pod("d1"))

    await followed.see("d0", "d1", "p0")


async def test_pods_of_a_new_replica_set_are_taken_whichever_is_seen_first(
    followed: Followed,
) -> None:
    server = followed.server
    server.put("replicasets", replica_set("decode", uid="second"))
    server.put("pods", pod("d1", owner="second"))
    await followed.see("d0", "d1", "p0")

    server.put("pods", pod("d2", owner="third"))
    server.put("pods", pod("d3"))
    await followed.see("d0", "d1", "d3", "p0")
    server.put("replicasets", replica_set("decode", uid="third"))

    await followed.see("d0", "d1", "d2", "d3", "p0")


async def test_a_replica_set_that_is_gone_takes_no_pod_with_it(followed: Followed) -> None:
    followed.server.delete("replicasets", "tiny-decode-set")
    followed.server.put("pods", pod("d1"))

    await followed.see("d0", "d1", "p0")


async def test_without_the_right_to_list_replica_sets_pods_are_told_by_their_owners_names(
    tmp_path: Path,
) -> None:
    server = await FakeApiServer().start()
    server.forbidden.add("replicasets")
    (tmp_path / "token").write_text("token")
    server.put("configmaps", config_map(json.dumps(settings_document())))
    for each in (pod("p0"), pod("d0"), pod("d9", owner=None)):
        server.put("pods", each)
    seen = Followed(server, tmp_path / "token")
    async with aiohttp.ClientSession() as session, following(seen, session, tmp_path):
        await seen.see("d0", "p0")
        assert seen.fleet.listed
    await server.stop()


async def test_an_edit_of_the_settings_is_in_force_at_once(followed: Followed) -> None:
    edited = settings_document(generation=7, slo={"ttft_s": 0.123})

    followed.server.put("configmaps", config_map(json.dumps(edited)))

    await until(lambda: followed.settings.current and followed.settings.current.generation == 7)
    assert followed.settings.current is not None
    assert followed.settings.current.slo.ttft_s == 0.123


async def test_unusable_settings_leave_the_old_ones_in_force(
    followed: Followed, caplog: pytest.LogCaptureFixture
) -> None:
    before = followed.settings.current
    bad = settings_document(slo={"tpot_s": -1})

    followed.server.put("configmaps", config_map(json.dumps(bad)))
    await until(lambda: caplog.records)
    followed.server.put("configmaps", config_map("{"))
    await until(lambda: len(caplog.records) >= 2)
    followed.server.delete("configmaps", "tiny-router")
    await until(lambda: len(caplog.records) >= 3)

    assert followed.settings.current is before
    assert "slo.tpot_s" in caplog.records[0].__dict__["why"]


async def test_a_watch_that_ends_goes_on_where_it_was(followed: Followed) -> None:
    for kind in KINDS:
        followed.server.bookmark(kind)
    version = followed.server.version
    await asyncio.sleep(0.05)
    lists = sum("watch" not in query for _, query in followed.server.queries)

    followed.server.end_watches()
    await until(lambda: len(followed.server.queries) >= 9 and followed.server.watching())
    followed.server.put("pods", pod("d1"))

    await followed.see("d0", "d1", "p0")
    assert sum("watch" not in query for _, query in followed.server.queries) == lists
    resumed = [int(query["resourceVersion"]) for _, query in followed.server.queries[-3:]]
    assert sorted(resumed) == [version - 2, version - 1, version]


async def test_410_in_the_watch_lists_again_and_forgets_pods_that_are_gone(
    followed: Followed,
) -> None:
    del followed.server.objects["pods"]["d0"]
    followed.server.put_unseen("pods", pod("d9"))

    followed.server.fail_watches("pods", 410)

    await followed.see("d9", "p0")


async def test_410_as_the_status_of_a_watch_lists_again(followed: Followed) -> None:
    followed.server.put_unseen("pods", pod("d9"))
    followed.server.gone_at = followed.server.version

    followed.server.end_watches()

    await followed.see("d0", "d9", "p0")


async def test_the_last_known_state_stays_while_the_api_server_is_away(
    followed: Followed,
) -> None:
    followed.server.away = True
    followed.server.end_watches()
    asked = len(followed.server.queries)
    await until(lambda: len(followed.server.queries) >= asked + 4)
    assert followed.usable() == ["d0", "p0"]
    assert followed.settings.current is not None

    followed.server.put_unseen("pods", pod("d1"))
    followed.server.away = False

    await followed.see("d0", "d1", "p0")


async def test_a_rotated_token_is_used_from_the_next_request_on(followed: Followed) -> None:
    assert followed.server.tokens[-1] == "Bearer first-token"
    followed.token_path.write_text("second-token\n")

    followed.server.end_watches()

    await until(lambda: followed.server.tokens[-1] == "Bearer second-token")


@pytest.mark.parametrize(
    ("change", "usable"),
    [
        ({}, True),
        ({"phase": "Failed"}, False),
        ({"phase": "Succeeded"}, False),
        ({"conditions": []}, False),
        ({"conditions": None}, False),
    ],
)
def test_a_pod_is_usable_only_when_ready_and_running(
    change: dict[str, object], usable: bool
) -> None:
    item = pod("d0")
    item["status"].update(change)

    endpoint = endpoint_of(item)

    assert endpoint is not None
    assert (endpoint.ready and not endpoint.leaving) is usable


def test_pods_without_address_or_engine_role_are_no_endpoints() -> None:
    without_address = pod("d0")
    del without_address["status"]["podIP"]
    router = pod("r0", **{"tandem-inference.io/role": "router"})

    assert endpoint_of(without_address) is None
    assert endpoint_of(router) is None


def router_pod(name: str, *, owner: str | None = "router-set", **changes: Any) -> dict[str, Any]:
    labels = {"tandem-inference.io/role": "router"}
    return pod(f"tiny-router-{name}", owner=owner, **labels, **changes)


async def test_other_routers_are_those_whose_owners_lead_to_the_pools_router(
    followed: Followed,
) -> None:
    server = followed.server
    server.put("replicasets", replica_set("router"))
    server.put("replicasets", replica_set("router", uid="other-set", deployment="other-router"))

    server.put("pods", router_pod("me"))
    server.put("pods", router_pod("ends", leaving=True))
    server.put("pods", router_pod("by-hand", owner=None))
    server.put("pods", router_pod("a-guess", owner="a-guess"))
    server.put("pods", router_pod("of-decode", owner="decode-set"))
    server.put("pods", router_pod("other", owner="other-set"))
    server.put("pods", router_pod("a"))

    await until(lambda: "tiny-router-a" in followed.peers.names)
    assert followed.peers.names == ["tiny-router-a", "tiny-router-ends"]
    assert followed.usable() == ["d0", "p0"]
    server.delete("pods", "tiny-router-a")
    await until(lambda: followed.peers.names == ["tiny-router-ends"])
