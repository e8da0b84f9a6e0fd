"""The names of leases that came and that were released, in either order."""


class Names:
    """The request that came under a name, or the release of the name; either may be first."""

    def __init__(self, *, kept_s: float) -> None:
        self._kept_s = kept_s
        self._entries: dict[str, tuple[str | None, float]] = {}

    def came(self, name: str, request_id: str, *, now: float) -> bool:
        """Record a request; return whether it is still wanted."""
        self._forget(now)
        if name in self._entries:
            return self._entries[name][0] is not None
        self._entries[name] = (request_id, now + self._kept_s)
        return True

    def let_go(self, name: str, *, now: float) -> str | None:
        """Return the request that came under a released name, if it came."""
        self._forget(now)
        return self._entries.setdefault(name, (None, now + self._kept_s))[0]

    def _forget(self, now: float) -> None:
        # They are in the order of their creation, which is also that of their ends.
        for name, (_, until_s) in list(self._entries.items()):
            if until_s > now:
                return
            del self._entries[name]
