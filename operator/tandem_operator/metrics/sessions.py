"""Connections to pods and to servers that pool authors name, and the addresses that get none.

A name may mean any address, and another one a moment later: what is checked is the address that a
connection is about to be made to.
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
    """For pods, whose addresses the API server gave."""
    return _session(_socket)


def servers_session(*, named: bool) -> aiohttp.ClientSession:
    """For Prometheus servers; those that the installation names may be anywhere.

    Only these are asked through a proxy of the environment: to any other server's address a proxy
    would connect unchecked.
    """
    return _session(_socket, trust_env=True) if named else _session(_guarded)


def _session(
    factory: aiohttp.SocketFactoryType, *, trust_env: bool = False
) -> aiohttp.ClientSession:
    # Silent pods of one author would hold all of a common limit: each pool has one of its own. And
    # no cookie of another pool comes between.
    connector = aiohttp.TCPConnector(limit=0, socket_factory=factory)
    return aiohttp.ClientSession(
        connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=trust_env
    )


def _socket(address: AddressInfo) -> socket.socket:
    """A socket that holds little of what nobody has read yet."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
    return made


def _guarded(address: AddressInfo) -> socket.socket:
    why = refusal_of(str(address[4][0]), api_server=os.environ.get("KUBERNETES_SERVICE_HOST"))
    if why is not None:
        raise RefusedAddressError(why)
    return _socket(address)
