"""`tandem-router`: heeds SIGTERM from its first moment on, then loads and runs the router."""

import os
import signal
import sys
from types import FrameType


def main() -> None:
    """Run the process's command line."""
    # Process 1 of a container is spared a signal that it has no handler for, and a pod is told to
    # end only once: while the import takes its seconds, the pod would be kept for its grace period.
    signal.signal(signal.SIGTERM, _leave)
    from tandem_engine.router.entry import run  # noqa: PLC0415 - see above

    run(sys.argv[1:])


def _leave(_: int, __: FrameType | None) -> None:
    """End: nobody has been served yet. An exception might come up where imports ignore them."""
    os._exit(0)


if __name__ == "__main__":
    main()
