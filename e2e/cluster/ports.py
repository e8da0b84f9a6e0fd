"""Ports of loopback for processes that need to know where to listen."""

import socket

_BOUND: list[socket.socket] = []


def free_ports(count: int) -> list[int]:
    """Return free ports of loopback that no other process gets from now on.

    A socket bound to each keeps the kernel from handing it out until a child listens there, seconds
    later; a process that allows its address to be reused, as servers do, may listen all the same.
    """
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind(("127.0.0.1", 0))
    _BOUND.extend(sockets)
    return [int(one.getsockname()[1]) for one in sockets]


def free_port() -> int:
    """Return one free port."""
    return free_ports(1)[0]
