"""The bytes on a connection that the other end has not read yet."""

import asyncio
import fcntl
import sys
import termios


def untaken_bytes(transport: asyncio.Transport) -> int:
    """Return the bytes that wait for the other end, here and in the kernel.

    The kernel asks for more only after a good part of its megabytes has gone. With a slow reader
    that takes minutes, in which the transport alone looks stuck.
    """
    here = transport.get_write_buffer_size()
    try:
        queued = fcntl.ioctl(
            transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, b"\0\0\0\0"
        )
    except (OSError, ValueError):
        return here
    return here + int.from_bytes(queued, sys.byteorder)
