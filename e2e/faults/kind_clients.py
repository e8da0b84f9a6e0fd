"""Clients that behave badly, and routers that go, on kind with real vLLM.

A hostile client is one more client: the invariants are about the honest load beside it.
"""

import asyncio
import contextlib
import json
import socket
from urllib.parse import urlsplit

from e2e.commands import kubectl
from e2e.faults import node
from e2e.faults.node import Undo
from e2e.faults.on_kind import COUNTS, MODEL, Disturbance, Scene, kind_scenario
from e2e.faults.scenario import Family, Loss
from e2e.pools import NotInTimeError, wait_until
from tandem_operator.core.role import Role

KUBELET_BLIND_S = 2.0
"""The time until the kubelet looks again: a Service still leads to a container that was killed."""
LEAVERS = 120
ENGINE_PORT = 8000
EXPIRED = "vllm:nixl_num_kv_expired_reqs_total"
LEASE_S = 30.0
DELETIONS = 20
ROUTERS = {"router": COUNTS["router"]}
SLOW_READERS = 12
OPEN_HEADS = 300
SILENT_BODIES = 50


def restart_routers(scene: Scene) -> None:
    """Restart the routers one after the other, as for a new image."""
    kubectl("rollout", "restart", f"deployment/{scene.pool.name}-router", "-n", scene.namespace)


def kill_router(scene: Scene) -> None:
    """SIGKILL one router's process."""
    node.kill_container(scene.pod_of("router"), namespace=scene.namespace)


def delete_routers(scene: Scene) -> None:
    """Delete a router, wait until another is Ready, and delete the next."""
    for number in range(DELETIONS):
        pod = scene.pod_of("router")
        kubectl("delete", "pod", pod, "-n", scene.namespace, "--wait=false")
        try:
            wait_until(
                lambda: scene.pool.is_whole(counts=ROUTERS), within_s=60.0, what="two routers"
            )
        except NotInTimeError as error:
            scene.broken.append(f"deletion {number + 1}: {error}")


def _address(scene: Scene) -> tuple[str, int]:
    parts = urlsplit(scene.url)
    return parts.hostname or "127.0.0.1", parts.port or 80


def _body(scene: Scene, *, prompt_tokens: int, output_tokens: int) -> bytes:
    prompt = [scene.random.randrange(16, 1024) for _ in range(prompt_tokens)]
    return json.dumps(
        {
            "model": MODEL,
            "prompt": prompt,
            "max_tokens": output_tokens,
            "min_tokens": output_tokens,
            "ignore_eos": True,
            "stream": True,
        }
    ).encode()


def _head(length: int) -> bytes:
    return (
        b"POST /v1/completions HTTP/1.1\r\nHost: door\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n" % length
    )


def _leave_between_legs(scene: Scene) -> Undo:
    """Ask for long prompts and leave after a few hundredths of a second: prefill has begun.

    The returned function looks, after the end of all leases, whether one was left to run out.
    """
    before = _expired_leases(scene)

    async def leave(number: int) -> None:
        reader, writer = await asyncio.open_connection(*_address(scene))
        body = _body(scene, prompt_tokens=1500, output_tokens=50)
        writer.write(_head(len(body)) + body)
        with contextlib.suppress(TimeoutError, OSError):
            await asyncio.wait_for(reader.read(1), 0.02 + 0.005 * (number % 40))
        writer.transport.abort()

    async def all_of_them() -> None:
        for number in range(LEAVERS):
            with contextlib.suppress(OSError):
                await leave(number)

    asyncio.run(all_of_them())

    def look() -> None:
        for pod, expired in _expired_leases(scene).items():
            if (left := expired - before.get(pod, 0.0)) > 0.0:
                scene.broken.append(f"{pod} kept the KV blocks of {left:g} leavers for their lease")

    return look


def _expired_leases(scene: Scene) -> dict[str, float]:
    return {
        face.name: scene.pool.metric(face.name, port=ENGINE_PORT, name=EXPIRED) or 0.0
        for face in scene.pool.pods(Role.PREFILL)
    }


def _read_slowly(scene: Scene) -> Undo:
    """Ask for long streams and read nothing, with the smallest possible socket buffers."""
    sockets = []
    for _ in range(SLOW_READERS):
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        one.connect(_address(scene))
        body = _body(scene, prompt_tokens=20, output_tokens=2000)
        one.sendall(_head(len(body)) + body)
        sockets.append(one)

    def let_go() -> None:
        for one in sockets:
            one.close()

    return let_go


def _never_end_what_they_say(scene: Scene) -> Undo:
    """Open connections whose head never ends, and others whose body never comes."""
    sockets = []
    for number in range(OPEN_HEADS + SILENT_BODIES):
        one = socket.socket()
        one.settimeout(5.0)
        with contextlib.suppress(OSError):
            one.connect(_address(scene))
            head = b"POST /v1/completions HTTP/1.1\r\nHost: door\r\nX-Slow: "
            one.sendall(_head(4_000_000) if number >= OPEN_HEADS else head)
        sockets.append(one)

    def let_go() -> None:
        for one in sockets:
            one.close()

    return let_go


CLIENTS = (
    kind_scenario(
        "routers-rolled",
        Family.CLIENTS,
        "All routers are replaced by a rollout.",
        Disturbance(restart_routers, load_s=60.0),
        undone="The rollout ends.",
    ),
    kind_scenario(
        "routers-deleted",
        Family.CLIENTS,
        "Twenty times, one of two routers is deleted as soon as both are Ready.",
        Disturbance(delete_routers, load_s=150.0),
        undone="Kubernetes makes another each time.",
    ),
    kind_scenario(
        "router-killed",
        Family.CLIENTS,
        "A router's process is ended with SIGKILL.",
        Disturbance(kill_router, blind_s=KUBELET_BLIND_S),
        undone="The kubelet starts it again.",
        may_lose=Loss.HELD,
    ),
    kind_scenario(
        "leavers",
        Family.CLIENTS,
        "120 clients leave while their prompts are computed; no lease of theirs may run out.",
        Disturbance(_leave_between_legs, lasts_s=LEASE_S + 5.0, load_s=60.0),
        undone="They are gone.",
        quick=True,
    ),
    kind_scenario(
        "slow-readers",
        Family.CLIENTS,
        "12 clients ask for long streams and read nothing for 30 s, beyond all socket buffers.",
        Disturbance(_read_slowly, lasts_s=30.0, load_s=50.0),
        undone="They leave.",
    ),
    kind_scenario(
        "unending-requests",
        Family.CLIENTS,
        "300 connections never end their head, and 50 never send the body that they promise.",
        Disturbance(_never_end_what_they_say, lasts_s=40.0, load_s=60.0),
        undone="They leave.",
    ),
)
