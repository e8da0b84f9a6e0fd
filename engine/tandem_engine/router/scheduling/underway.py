"""Admitted requests that have not reached a decode pod yet; they already count there."""

from tandem_engine.router.scheduling.placement import PrefillPlacement
from tandem_routing.outstanding import NO_LOAD, Load


class Underway:
    """Admitted requests before their decode pod, by the revision that will get them.

    A request without a prefill pod can go to any revision.
    """

    def __init__(self) -> None:
        self._loads: dict[PrefillPlacement, tuple[str | None, Load]] = {}
        self._totals: dict[str | None, Load] = {}

    def __len__(self) -> int:
        """Return the number of these requests."""
        return len(self._loads)

    def begin(self, placement: PrefillPlacement, load: Load) -> None:
        """Count a request with its load on a decode pod."""
        pod = placement.prefill or placement.decode
        revision = None if pod is None else pod.endpoint.revision
        self._loads[placement] = revision, load
        self._totals[revision] = self._totals.get(revision, NO_LOAD) + load

    def end(self, placement: PrefillPlacement) -> bool:
        """Stop counting it; return whether it was counted."""
        counted = self._loads.pop(placement, None)
        if counted is None:
            return False
        revision, load = counted
        self._totals[revision] -= load
        if not self._totals[revision].streams:
            del self._totals[revision]
        return True

    def to(self, revision: str) -> Load:
        """Return the whole load that decode pods of `revision` may get."""
        return self._totals.get(revision, NO_LOAD) + self._totals.get(None, NO_LOAD)
