"""Connections to pods and to servers that pool authors name, without forbidden addresses.

A name may mean any address, and another one a moment later. So the check is on the address of the
connection itself.
"""

import os
import socket

import aiohttp

from tandem_operator.workloads.checks.addresses import refusal_of

_RECEIVE_BUFFER_BYTES = 64 * 1024

AddressInfo = tuple[
    int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[object, ...]
]


class RefusedAddressError(OSError):
    """No connection is made to this address; the text says why."""


def pods_session() -> aiohttp.ClientSession:
    """Return the session for pods, whose addresses the API server gave."""
    return _session(_socket)


def servers_session(*, named: bool) -> aiohttp.ClientSession:
    """Return the session for Prometheus servers; those that the installation names may be anywhere.

    Only these are asked through a proxy of the environment: a proxy would connect to any other
    server's address unchecked.
    """
    return _session(_socket, trust_env=True) if named else _session(_guarded)


def _session(
    factory: aiohttp.SocketFactoryType, *, trust_env: bool = False
) -> aiohttp.ClientSession:
    # With a common limit, one author's silent pods would use all connections, so each pool has its
    # own limit. And no pool gets another pool's cookies.
    connector = aiohttp.TCPConnector(limit=0, socket_factory=factory)
    return aiohttp.ClientSession(
        connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=trust_env
    )


def _socket(address: AddressInfo) -> socket.socket:
    """Return a socket with a small buffer for unread data."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
    return made


def _guarded(address: AddressInfo) -> socket.socket:
    why = refusal_of(str(address[4][0]), api_server=os.environ.get("KUBERNETES_SERVICE_HOST"))
    if why is not None:
        raise RefusedAddressError(why)
    return _socket(address)
