"""Events about pools: few, on transitions, under names that make a repeat the same Event."""

import hashlib
import logging
from collections.abc import Callable
from datetime import UTC, datetime

import aiohttp

from tandem_operator.kube.client import ApiServerError, Kube, Object
from tandem_operator.kube.kinds import EVENT

log = logging.getLogger(__name__)

CONTROLLER = "tandem-inference.io/operator"
NOTE_LIMIT_BYTES = 1024
REPEAT_AFTER_S = 600.0
_REMEMBERED = 1000


class EventWriter:
    """A writer of Events of `events.k8s.io/v1`. A lost Event is logged, and is no error."""

    def __init__(self, kube: Kube, *, instance: str, now: Callable[[], float]) -> None:
        self._kube = kube
        self._instance = instance
        self._now = now
        self._posted: dict[tuple[str, str, str], float] = {}

    async def post(
        self,
        pool: Object,
        *,
        reason: str,
        note: str,
        warning: bool = False,
        action: str = "Reconcile",
    ) -> None:
        """Post one Event, unless the same one was posted within the last ten minutes."""
        now_s = self._now()
        metadata = pool["metadata"]
        key = (metadata["uid"], reason, note)
        if now_s - self._posted.get(key, float("-inf")) < REPEAT_AFTER_S:
            return
        if len(self._posted) >= _REMEMBERED:
            self._posted.pop(next(iter(self._posted)))
        self._posted[key] = now_s
        minute = int(now_s // 60)
        digest = hashlib.sha256(f"{metadata['uid']}/{reason}/{note}/{minute}".encode()).hexdigest()
        body: Object = {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {
                "name": f"{metadata['name']}.{digest[:16]}",
                "namespace": metadata["namespace"],
            },
            "eventTime": datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance[:128],
            "action": action,
            "reason": reason,
            "note": shortened(note),
            "type": "Warning" if warning else "Normal",
            "regarding": {
                "apiVersion": pool["apiVersion"],
                "kind": pool["kind"],
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
                "resourceVersion": metadata.get("resourceVersion", ""),
            },
        }
        try:
            await self._kube.create(
                EVENT, body, namespace=metadata["namespace"], manager=CONTROLLER.partition("/")[2]
            )
        except (ApiServerError, aiohttp.ClientError, OSError, TimeoutError) as error:
            if not (isinstance(error, ApiServerError) and error.status == 409):
                log.warning("event not posted", extra={"reason": reason, "why": repr(error)})


def shortened(note: str) -> str:
    """Return the note within the API's limit of bytes, cut between characters."""
    raw = note.encode()
    if len(raw) <= NOTE_LIMIT_BYTES:
        return note
    return raw[: NOTE_LIMIT_BYTES - 3].decode("utf-8", "ignore") + "..."
