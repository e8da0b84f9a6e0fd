"""The total time for which a state lasted."""


class Stopwatch:
    """Runs while a state lasts; times are seconds of one clock."""

    __slots__ = ("_since_s", "_total_s")

    def __init__(self) -> None:
        self._since_s: float | None = None
        self._total_s = 0.0

    @property
    def running(self) -> bool:
        """Return whether the state lasts now."""
        return self._since_s is not None

    def turn(self, *, on: bool, now: float) -> None:
        """Record whether the state lasts from now on; a repeated value changes nothing."""
        if on and self._since_s is None:
            self._since_s = now
        elif not on and self._since_s is not None:
            self._total_s += now - self._since_s
            self._since_s = None

    def total_s(self, now: float) -> float:
        """Return the seconds until `now`."""
        return self._total_s + (0.0 if self._since_s is None else now - self._since_s)
