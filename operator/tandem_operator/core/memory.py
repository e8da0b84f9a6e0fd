"""What a pool's decisions remember between ticks, and its JSON form, unrounded and versioned.

A decision with a memory that went through JSON equals the decision without that trip. Only fleets
of hundreds lose something on it: one row of measurements for each prefill pod.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tandem_operator.core.codec import CodecError, decode, encode
from tandem_operator.core.forecast.backtest import Track
from tandem_operator.core.guard.guard import Past
from tandem_operator.core.guard.stabilization import Wants
from tandem_operator.core.learn.correction import Correction
from tandem_operator.core.learn.measurements import Learned
from tandem_operator.core.learn.output_lengths import Outputs
from tandem_operator.core.objective.objective import Promise
from tandem_operator.core.observe.fleet import Starts
from tandem_operator.core.quota.share import Crest
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.decode_speed import DecodePace

VERSION = 2
MOST_BYTES = 512 * 1024
"""Half of what a ConfigMap may hold. All but the legs of the largest pool stays below it."""


class MemoryFormatError(ValueError):
    """A stored memory is of no use; the sentence says why."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Everything a decision may depend on besides spec, observation and time.

    Attributes:
        floors: counts that violations demanded of a fleet that cannot be judged yet.
        outputs: output lengths seen last; kept while nothing finishes.
        overhead_s: the part of TTFT that no prefill replica changes, measured at low load.
        crest: the most demanding curve of late, where pools share a quota.
        pace: what the routers were told of a decode replica.
        relieved: roles that hold a replica more until it serves for one whose node is emptied.
        doors: how many routers their load needed.
        promise: the error budget, hours of demand, and the insurance taken against its bursts.
    """

    version: int = VERSION
    at_s: float | None = None
    learned: Learned = field(default_factory=Learned)
    starts: Starts = field(default_factory=Starts)
    track: Track = field(default_factory=Track)
    correction: Correction = field(default_factory=Correction)
    past: Mapping[Role, Past] = field(default_factory=dict)
    floors: Mapping[Role, int] = field(default_factory=dict)
    outputs: Outputs | None = None
    overhead_s: float | None = None
    crest: Crest | None = None
    pace: DecodePace | None = None
    relieved: tuple[Role, ...] = ()
    doors: Wants = field(default_factory=Wants)
    promise: Promise = field(default_factory=Promise)

    def to_json(self) -> str:
        """Compact JSON that `from_json` reads back exactly, but for legs where they are many."""
        text = _compact(self)
        if len(text) <= MOST_BYTES:
            return text
        # There is one for each router and prefill pod, and all they save is one row a pod.
        return _compact(replace(self, learned=replace(self.learned, legs={})))

    @staticmethod
    def from_json(text: str) -> "Memory":
        """The memory that `text` holds.

        Raises:
            MemoryFormatError: not JSON, another version, or a field of another shape.
        """
        try:
            raw = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise MemoryFormatError(f"The stored memory cannot be read: {error}") from error
        version = raw.get("version") if isinstance(raw, dict) else None
        if version != VERSION:
            raise MemoryFormatError(
                f"The stored memory has version {version!r:.40}, expected {VERSION}"
            )
        try:
            memory: Memory = decode(Memory, raw)
        except CodecError as error:
            raise MemoryFormatError(f"The stored memory cannot be read: {error}") from error
        return memory


def _compact(memory: Memory) -> str:
    return json.dumps(encode(memory), separators=(",", ":"), allow_nan=False)
