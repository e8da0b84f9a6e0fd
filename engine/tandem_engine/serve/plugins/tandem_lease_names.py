"""Which leases came and which were let go, by name: one of the two is first, nobody knows which."""


class Names:
    """What came under a name, and what was let go under it, whichever was first."""

    def __init__(self, *, kept_s: float) -> None:
        self._kept_s = kept_s
        self._entries: dict[str, tuple[str | None, float]] = {}

    def came(self, name: str, request_id: str, *, now: float) -> bool:
        """Take note of a request; return whether it is still wanted."""
        self._forget(now)
        if name in self._entries:
            return self._entries[name][0] is not None
        self._entries[name] = (request_id, now + self._kept_s)
        return True

    def let_go(self, name: str, *, now: float) -> str | None:
        """Return the request that came under a name that nobody wants any more, if it did."""
        self._forget(now)
        return self._entries.setdefault(name, (None, now + self._kept_s))[0]

    def _forget(self, now: float) -> None:
        # In the order in which they were made, which is that of their ends.
        for name, (_, until_s) in list(self._entries.items()):
            if until_s > now:
                return
            del self._entries[name]
