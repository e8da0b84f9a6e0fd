"""The memory of a pool's decisions between ticks."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tandem_operator.core.forecast.backtest import Track
from tandem_operator.core.guard.growth_confirmation import Past
from tandem_operator.core.guard.stabilization import Wants
from tandem_operator.core.learn.correction import Correction
from tandem_operator.core.learn.measurements import LearnedEngines
from tandem_operator.core.learn.output_lengths import Outputs
from tandem_operator.core.objective.promise import Promise
from tandem_operator.core.objective.rest import Rest
from tandem_operator.core.observe.role_pods import Starts
from tandem_operator.core.quota.share import Crest
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.decode_speed import TimedDecodePace

VERSION = 2
"""The version of its fields. A memory of another version is not read."""


@dataclass(frozen=True, slots=True)
class Memory:
    """All state of a decision besides spec, observation and time.

    Attributes:
        floors: counts that violations demanded of a fleet that cannot be judged yet.
        outputs: output lengths seen last; kept while no request ends.
        overhead_s: the part of TTFT that prefill replicas cannot change, measured at low load.
        crest: the most demanding recent curve of a pool that shares a quota.
        pace: the speed of a decode replica as sent to the routers.
        relieved: roles with one replica more until it serves in place of one on a drained node.
        doors: numbers of routers that their load needed.
        rest: pauses of a pool that may go to zero, and its latest wake.
        early_s: time before the start of a schedule at which pods were asked for, while that start
            is near.
        promise: the error budget, hours of demand, and the insurance against its bursts.
    """

    version: int = VERSION
    at_s: float | None = None
    learned: LearnedEngines = field(default_factory=LearnedEngines)
    starts: Starts = field(default_factory=Starts)
    track: Track = field(default_factory=Track)
    correction: Correction = field(default_factory=Correction)
    past: Mapping[Role, Past] = field(default_factory=dict)
    floors: Mapping[Role, int] = field(default_factory=dict)
    outputs: Outputs | None = None
    overhead_s: float | None = None
    crest: Crest | None = None
    pace: TimedDecodePace | None = None
    relieved: tuple[Role, ...] = ()
    doors: Wants = field(default_factory=Wants)
    promise: Promise = field(default_factory=Promise)
    rest: Rest = field(default_factory=Rest)
    early_s: float | None = None
