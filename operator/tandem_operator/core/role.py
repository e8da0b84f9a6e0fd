"""The two roles of a pool: everything that differs between them is data keyed by this value."""

from enum import StrEnum


class Role(StrEnum):
    """A fleet of engine pods with one job."""

    PREFILL = "prefill"
    DECODE = "decode"

    @property
    def other(self) -> "Role":
        """Return the role on the other side of the KV transfer."""
        return Role.DECODE if self is Role.PREFILL else Role.PREFILL
