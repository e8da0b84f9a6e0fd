"""HTTP to a port of a pod through the API server, as `kubectl port-forward` does it.

The API server's own proxy to pods does not work here. It connects from outside the pod's node, and
the pool's NetworkPolicies block it. A forwarded connection begins inside the pod.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import ClientWebSocketResponse, WSMsgType

from tandem_operator.kube.client import Kube
from tandem_operator.kube.kinds import POD

PROTOCOL = "v4.channel.k8s.io"
MOST_BYTES = 16 * 1024 * 1024
ANSWER_TIMEOUT_S = 15.0
_DATA, _ERROR = 0, 1
# The first message of each channel names the port.
_GREETING_BYTES = 2


class ForwardError(Exception):
    """The pod's port gave no answer; the sentence says why."""


class PodPort:
    """One connection to a pod's port."""

    def __init__(self, socket: ClientWebSocketResponse, pod: str) -> None:
        self._socket = socket
        self._pod = pod
        self._greeted: set[int] = set()
        self._unread = bytearray()

    async def get(self, path: str) -> tuple[int, bytes]:
        """Return status and body of a GET.

        Raises:
            ForwardError: no complete answer, for any reason.
        """
        request = f"GET {path} HTTP/1.1\r\nHost: {self._pod}\r\nAccept: application/json\r\n\r\n"
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                await self._socket.send_bytes(bytes([_DATA]) + request.encode())
                head = await self._until(b"\r\n\r\n")
                status, length = _read_head(head)
                return status, await self._exactly(length)
        except TimeoutError:
            raise ForwardError(f"no answer within {ANSWER_TIMEOUT_S:g} s") from None
        except ConnectionError as error:
            raise ForwardError(f"the connection broke ({error})") from None

    async def _until(self, end: bytes) -> bytes:
        while end not in self._unread:
            await self._more()
        head, _, rest = bytes(self._unread).partition(end)
        self._unread = bytearray(rest)
        return head

    async def _exactly(self, length: int) -> bytes:
        while len(self._unread) < length:
            await self._more()
        body = bytes(self._unread[:length])
        del self._unread[:length]
        return body

    async def _more(self) -> None:
        message = await self._socket.receive()
        if message.type is not WSMsgType.BINARY or not message.data:
            raise ForwardError("the connection was closed")
        channel, data = message.data[0], message.data[1:]
        if channel not in self._greeted:
            self._greeted.add(channel)
            data = data[_GREETING_BYTES:]
        if channel == _ERROR and data:
            raise ForwardError(data.decode(errors="replace").strip())
        if channel == _DATA:
            self._unread += data
        if len(self._unread) > MOST_BYTES:
            raise ForwardError(f"the answer is longer than {MOST_BYTES} bytes")


@asynccontextmanager
async def forwarded(kube: Kube, *, namespace: str, pod: str, port: int) -> AsyncIterator[PodPort]:
    """Open a connection to a pod's port; it needs `get` and `create` of `pods/portforward`.

    Raises:
        ApiError: the API server refuses.
    """
    path = POD.path(namespace=namespace, name=pod, subresource="portforward")
    async with kube.websocket(path, query={"ports": str(port)}, protocol=PROTOCOL) as socket:
        yield PodPort(socket, pod)


def _read_head(head: bytes) -> tuple[int, int]:
    first, *lines = head.decode("latin-1").split("\r\n")
    fields = dict(line.lower().split(":", 1) for line in lines if ":" in line)
    try:
        return int(first.split()[1]), int(fields["content-length"])
    except (IndexError, KeyError, ValueError):
        raise ForwardError(f"the answer is no HTTP of a known length: {first[:80]!r}") from None
