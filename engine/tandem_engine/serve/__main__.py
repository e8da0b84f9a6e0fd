"""`tandem-engine`: handles SIGTERM from its start, then loads and runs the launcher."""

import os
import signal
import sys
from types import FrameType


def main() -> int:
    """Run the process's command line; return the exit code."""
    # Linux drops a signal to process 1 of a container without a handler for it. The kubelet sends
    # the signal only once. Without this handler, a signal during the import would be lost, and the
    # pod would stay for its grace period.
    signal.signal(signal.SIGTERM, _leave)
    try:
        from tandem_engine.serve.entry import run  # noqa: PLC0415 - see above
    except ModuleNotFoundError as missing:
        return _without(missing)
    return run(sys.argv[1:])


def _without(missing: ModuleNotFoundError) -> int:
    """Print what the image lacks; raise if it is a module of Tandem: that is Tandem's own fault."""
    from tandem_engine.serve.engine_image import no_module  # noqa: PLC0415 - needs no package

    module = str(missing.name)
    if module.startswith("tandem"):
        raise missing
    # The kubelet shows it as the container's message.
    print(no_module(module), file=sys.stderr)  # noqa: T201 - the reason for the end
    return 2


def _leave(_: int, __: FrameType | None) -> None:
    """Exit at once, because nothing has started yet; imports could swallow an exception."""
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
