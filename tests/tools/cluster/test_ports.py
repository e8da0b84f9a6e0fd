"""Ports for processes that are told where to listen are theirs alone."""

import socket

from e2e.cluster.ports import free_ports


def test_a_port_for_a_process_is_not_given_again_before_the_process_listens() -> None:
    ports = set(free_ports(100))

    others = set()
    for _ in range(3000):
        with socket.create_server(("127.0.0.1", 0)) as other:
            others.add(other.getsockname()[1])

    assert not ports & others
    with socket.create_server(("127.0.0.1", ports.pop())):
        pass
