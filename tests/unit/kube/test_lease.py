"""The election against a small API server that can refuse, fail, hang and race."""

import asyncio
import time

import pytest
from aiohttp import web
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration

from tandem_operator.kube.client import Kube, WritesForbiddenError
from tandem_operator.kube.kinds import CONFIG_MAP
from tandem_operator.kube.lease import Lease, LeaseLostError, LeaseTerms


class ApiServer:
    """One Lease with resourceVersions, and faults on demand."""

    def __init__(self):
        self.lease = None
        self.fault = None
        self.writes = 0
        self.before_write = None
        self.written = asyncio.Semaphore(0)

    async def answer(self, request):
        if self.fault == "hang":
            await asyncio.sleep(60)
        if self.fault is not None:
            return web.json_response({"reason": "Fault"}, status=self.fault)
        if request.method == "GET":
            if self.lease is None:
                return web.json_response({"reason": "NotFound"}, status=404)
            return web.json_response(self.lease)
        if self.before_write is not None:
            self.before_write, race = None, self.before_write
            race()
        body = await request.json()
        version = None if self.lease is None else self.lease["metadata"]["resourceVersion"]
        if body["metadata"].get("resourceVersion") != version:
            return web.json_response({"reason": "Conflict"}, status=409)
        self.hold(body["spec"])
        return web.json_response(self.lease)

    def hold(self, spec):
        self.writes += 1
        if self.fault is None:
            self.written.release()
        metadata = {"namespace": "ns", "name": "l", "resourceVersion": str(self.writes)}
        self.lease = {"metadata": metadata, "spec": spec}


@pytest.fixture
async def server():
    handler = ApiServer()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handler.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    handler.port = runner.addresses[0][1]
    yield handler
    await runner.cleanup()


@pytest.fixture
async def kube(server):
    configuration = Configuration()
    configuration.host = f"http://127.0.0.1:{server.port}"
    client = Kube(ApiClient(configuration))
    yield client
    await client.close()


def lease_of(kube, identity="me", *, duration_s=1.0, renew_deadline_s=0.8, clock=time.monotonic):
    terms = LeaseTerms(
        namespace="ns",
        name="l",
        identity=identity,
        duration_s=duration_s,
        renew_deadline_s=renew_deadline_s,
        retry_s=0.05,
    )
    return Lease(kube, terms, clock=clock)


def long_lease_of(kube, identity="me"):
    """Return one that outlasts a machine that stands still for some seconds."""
    return lease_of(kube, identity, duration_s=4.0, renew_deadline_s=3.5)


async def test_creates_a_missing_lease(server, kube):
    lease = long_lease_of(kube)

    await lease.acquire()

    assert lease.held
    assert server.lease["spec"]["holderIdentity"] == "me"
    assert server.lease["spec"]["renewTime"].endswith("Z")


async def test_a_live_lease_of_another_is_not_taken(server, kube):
    other, me = long_lease_of(kube, "other"), long_lease_of(kube)
    await other.acquire()
    keeping = asyncio.create_task(other.keep())

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(me.acquire(), 6.0)

    assert not me.held
    keeping.cancel()


async def test_a_lease_that_is_no_longer_renewed_is_taken_after_its_duration(server, kube):
    server.hold({"holderIdentity": "dead", "leaseDurationSeconds": 1, "renewTime": "2000-01-01"})
    lease = lease_of(kube)
    started_s = time.monotonic()

    await lease.acquire()

    # By our own clock since we saw it, whatever time the dead holder wrote.
    assert time.monotonic() - started_s >= 1.0
    assert server.lease["spec"]["leaseTransitions"] == 1


async def test_of_two_takers_at_once_one_wins(server, kube):
    lease = lease_of(kube)
    server.before_write = lambda: server.hold(
        {"holderIdentity": "faster", "leaseDurationSeconds": 600}
    )

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(lease.acquire(), 0.6)

    assert server.lease["spec"]["holderIdentity"] == "faster"


@pytest.mark.parametrize("fault", [503, 429, 403, "hang"])
async def test_failures_longer_than_the_deadline_lose_the_lease(server, kube, fault):
    lease = lease_of(kube)
    await lease.acquire()
    server.fault = fault

    with pytest.raises(LeaseLostError, match=r"No renewal for 0\.8 s"):
        await asyncio.wait_for(lease.keep(), 100)

    assert not lease.held


async def test_a_failure_shorter_than_the_deadline_keeps_it(server, kube):
    lease = lease_of(kube, duration_s=60.0, renew_deadline_s=50.0)
    await lease.acquire()
    keeping = asyncio.create_task(lease.keep())
    server.fault = 503
    await asyncio.sleep(0.3)
    server.fault, server.written = None, asyncio.Semaphore(0)

    await asyncio.wait_for(server.written.acquire(), 100)

    assert lease.held
    assert not keeping.done()
    keeping.cancel()


async def test_a_lease_taken_by_another_is_lost_by_name(server, kube):
    lease = lease_of(kube)
    await lease.acquire()
    server.hold({"holderIdentity": "usurper", "leaseDurationSeconds": 60})

    with pytest.raises(LeaseLostError, match="held by usurper"):
        await asyncio.wait_for(lease.keep(), 100)


async def test_a_process_that_was_stuck_knows_that_it_no_longer_holds_the_lease(kube):
    now_s = 1000.0
    lease = Lease(kube, LeaseTerms(namespace="ns", name="l", identity="me"), clock=lambda: now_s)
    await lease.acquire()
    assert lease.held

    now_s += 10.0

    assert not lease.held


async def test_no_write_leaves_a_process_without_the_lease(server, kube):
    kube.may_write = lambda: False

    with pytest.raises(WritesForbiddenError):
        await kube.create(CONFIG_MAP, {"metadata": {}}, namespace="ns", manager="m")

    assert server.writes == 0


async def test_a_released_lease_is_free_at_once(server, kube):
    lease = long_lease_of(kube)
    await lease.acquire()

    await lease.release()

    assert not lease.held
    assert server.lease["spec"]["holderIdentity"] == ""
    # By a clock that stands still no lease runs out.
    free = lease_of(kube, "next", clock=lambda: 1000.0)
    await asyncio.wait_for(free.acquire(), 100)
