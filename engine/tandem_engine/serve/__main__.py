"""`tandem-engine`: heeds SIGTERM from its first moment on, then loads and runs the launcher."""

import os
import signal
import sys
from types import FrameType


def main() -> int:
    """Run the process's command line; return the exit code."""
    # Process 1 of a container is spared a signal that it has no handler for, and a pod is told to
    # end only once: while the import takes its seconds, the pod would be kept for its grace period.
    signal.signal(signal.SIGTERM, _leave)
    try:
        from tandem_engine.serve.entry import run  # noqa: PLC0415 - see above
    except ModuleNotFoundError as missing:
        return _without(missing)
    return run(sys.argv[1:])


def _without(missing: ModuleNotFoundError) -> int:
    """Say what the image lacks; a module of our own is missing by our own fault."""
    from tandem_engine.serve.engine_image import no_module  # noqa: PLC0415 - needs no package

    module = str(missing.name)
    if module.startswith("tandem"):
        raise missing
    # The kubelet takes it for the container's message.
    print(no_module(module), file=sys.stderr)  # noqa: T201 - the reason for the end
    return 2


def _leave(_: int, __: FrameType | None) -> None:
    """End: nothing has started yet. An exception might come up where imports ignore them."""
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
