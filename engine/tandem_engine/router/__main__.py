"""`tandem-router`: handles SIGTERM from its start, then loads and runs the router."""

import os
import signal
import sys
from types import FrameType


def main() -> None:
    """Run the command line of the process."""
    # Process 1 of a container is spared a signal that it has no handler for, and a pod is told to
    # end only once: while the import takes its seconds, the pod would be kept for its grace period.
    signal.signal(signal.SIGTERM, _leave)
    from tandem_engine.router.entry import run  # noqa: PLC0415 - see above

    run(sys.argv[1:])


def _leave(_: int, __: FrameType | None) -> None:
    """Exit at once, because no request was served yet; imports could swallow an exception."""
    os._exit(0)


if __name__ == "__main__":
    main()
