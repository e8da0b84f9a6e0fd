"""Routers of one pool that know each other, in tests."""

import aiohttp

from tandem_engine.router.app import Router, RouterOptions
from tandem_engine.router.peers.telling import Peer
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
