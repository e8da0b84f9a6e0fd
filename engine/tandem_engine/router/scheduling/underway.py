"""What was let in and is at no decode pod yet: it counts there already."""

from tandem_engine.router.scheduling.placement import PrefillPlacement
from tandem_routing.outstanding import NO_LOAD, Load


class Underway:
    """What this router let in and what is at no decode pod yet, by the revision that is to get it.

    Any revision may get what no prefill pod computes.
    """

    def __init__(self) -> None:
        self._loads: dict[PrefillPlacement, tuple[str | None, Load]] = {}
        self._totals: dict[str | None, Load] = {}

    def __len__(self) -> int:
        """Return how many requests these are."""
        return len(self._loads)

    def begin(self, placement: PrefillPlacement, load: Load) -> None:
        """Count a request as what it will be to its decode pod."""
        pod = placement.prefill or placement.decode
        revision = None if pod is None else pod.endpoint.revision
        self._loads[placement] = revision, load
        self._totals[revision] = self._totals.get(revision, NO_LOAD) + load

    def end(self, placement: PrefillPlacement) -> bool:
        """Count it no more; return whether it was counted."""
        counted = self._loads.pop(placement, None)
        if counted is None:
            return False
        revision, load = counted
        self._totals[revision] -= load
        if not self._totals[revision].streams:
            del self._totals[revision]
        return True

    def to(self, revision: str) -> Load:
        """Return all that decode pods of `revision` may get."""
        return self._totals.get(revision, NO_LOAD) + self._totals.get(None, NO_LOAD)
