"""An event loop whose clock jumps to the next thing that is due, so that waits take no time."""

import asyncio
import selectors


class _JumpingSelector(selectors.SelectSelector):
    def __init__(self):
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout=None):
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("every task waits for ever")
            # Timers fire up to a nanosecond early: the clock must not stand still there.
            self.now_s += max(timeout, 2e-9)
        return ready


class _JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self):
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self):
        return self._jumping.now_s


def run_virtual(main):
    """Run a coroutine function in virtual time."""
    with asyncio.Runner(loop_factory=_JumpingLoop) as runner:
        return runner.run(main())
