"""What a pool's decisions remember between ticks."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tandem_operator.core.forecast.backtest import Track
from tandem_operator.core.guard.growth_confirmation import Past
from tandem_operator.core.guard.stabilization import Wants
from tandem_operator.core.learn.correction import Correction
from tandem_operator.core.learn.measurements import LearnedEngines
from tandem_operator.core.learn.output_lengths import Outputs
from tandem_operator.core.objective.promise import Promise
from tandem_operator.core.observe.role_pods import Starts
from tandem_operator.core.quota.share import Crest
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.decode_speed import TimedDecodePace

VERSION = 2
"""Of its fields. What another version stored is not read."""


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
