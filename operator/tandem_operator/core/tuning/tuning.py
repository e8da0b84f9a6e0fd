"""All chosen numbers that change decisions: one frozen record, passed down from `decide`.

Bounds of inputs, sizes of stored data, and numbers from mathematics or a data sheet stay in the
modules that use them.
"""

from dataclasses import dataclass, field

from tandem_operator.core.tuning.forecast import ForecastTuning
from tandem_operator.core.tuning.guard import GuardTuning
from tandem_operator.core.tuning.learn import LearnTuning
from tandem_operator.core.tuning.objective import ObjectiveTuning
from tandem_operator.core.tuning.observe import ObserveTuning
from tandem_operator.core.tuning.quota import QuotaTuning
from tandem_operator.core.tuning.sizing import SizingTuning


@dataclass(frozen=True, slots=True)
class Tuning:
    """The numbers of each folder of the core."""

    observe: ObserveTuning = field(default_factory=ObserveTuning)
    learn: LearnTuning = field(default_factory=LearnTuning)
    forecast: ForecastTuning = field(default_factory=ForecastTuning)
    sizing: SizingTuning = field(default_factory=SizingTuning)
    objective: ObjectiveTuning = field(default_factory=ObjectiveTuning)
    guard: GuardTuning = field(default_factory=GuardTuning)
    quota: QuotaTuning = field(default_factory=QuotaTuning)


TUNING = Tuning()
"""The shipped values."""
