"""Ports of loopback for processes that are told where to listen."""

import socket

_BOUND: list[socket.socket] = []


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nothing listens on, and that nobody else is given from now on.

    A socket bound to each keeps the kernel from handing it out until a child listens there, seconds
    later; whoever allows its address to be reused, as servers do, may listen all the same.
    """
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind(("127.0.0.1", 0))
    _BOUND.extend(sockets)
    return [int(one.getsockname()[1]) for one in sockets]


def free_port() -> int:
    """One such port."""
    return free_ports(1)[0]
