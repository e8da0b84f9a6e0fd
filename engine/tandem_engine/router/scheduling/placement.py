"""Where a request goes from the queue."""

from dataclasses import dataclass
from enum import StrEnum

from tandem_engine.router.pods.pod import Pod
from tandem_routing.outstanding import Load


class DecodeOnly(StrEnum):
    """Why a request went to a decode pod without a prefill pod."""

    OVERFLOW = "overflow"
    NO_PREFILL = "no_prefill"
    NO_PAIR = "no_pair"
    UNSUPPORTED = "unsupported"
    PREFILL_FAILED = "prefill_failed"
    PREFILL_TIMEOUT = "prefill_timeout"
    NO_KV_PARAMS = "no_kv_params"
    RETRY = "retry"
    KV_EXPIRED = "kv_expired"


@dataclass(frozen=True, slots=True, eq=False)
class PrefillPlacement:
    """Where a request goes; `load` counts at its prefill pod until `RequestQueue.left_prefill`.

    Attributes:
        decode: the decode pod that was found to have slack for all of it; `None`: any.
    """

    prefill: Pod | None
    load: Load
    decode_only: DecodeOnly | None = None
    decode: Pod | None = None


NOWHERE = PrefillPlacement(prefill=None, load=Load(0))
"""Where a request is that still waits."""
