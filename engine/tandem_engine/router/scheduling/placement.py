"""The place that a request gets from the queue."""

from dataclasses import dataclass
from enum import StrEnum

from tandem_engine.router.pods.pod import Pod
from tandem_routing.deadline_queue import Expected
from tandem_routing.outstanding import Load
from tandem_routing.prefix_index import NO_PREFIX, Prefix


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
    """Where a request goes; `load` counts at its prefill pod until `Places.left_prefill`.

    Attributes:
        decode: the decode pod that has slack for all of it; `None`: any.
        prefix: the part of its prompt that other requests may share.
        held_share: the share of its prompt that its prefill pod should have cached.
        expected: the expectation by which it was placed.
    """

    prefill: Pod | None
    load: Load
    decode_only: DecodeOnly | None = None
    decode: Pod | None = None
    prefix: Prefix = NO_PREFIX
    held_share: float = 0.0
    expected: Expected | None = None


NOWHERE = PrefillPlacement(prefill=None, load=Load(0))
"""The place of a request that still waits."""
