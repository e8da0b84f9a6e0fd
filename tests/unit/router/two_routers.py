"""Routers of one pool that know each other, in tests."""

import aiohttp

from tandem_engine.router.app import Router, RouterOptions
from tandem_engine.router.peers.telling import Peer, authorization
from tests.unit.router.pool import Pool

KEY = "open-sesame"


async def router_before(name: str, key: str | None) -> Pool:
    options = RouterOptions(name=name, host="127.0.0.1", port=0, internal_port=0, engine_key=key)
    router = Router(options)
    await router.start()
    router.fleet.replace(())
    pool = Pool(router, aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)))
    pool.configure()
    return pool


def peer(pool: Pool, name: str) -> Peer:
    return Peer(name, "127.0.0.1", pool.router.internal_port)


async def status_of(
    pool: Pool, path: str, body: bytes, *, key: str | None = KEY, method: str = "POST"
) -> int:
    """Send a router what another one may send, and return the status of its answer."""
    url = f"http://127.0.0.1:{pool.router.internal_port}{path}"
    headers = {} if key is None else {"Authorization": authorization(key)}
    async with pool.client.request(method, url, data=body, headers=headers) as response:
        return response.status
