"""The forecast: the rate at some horizons, each with equally likely samples around it."""

from dataclasses import dataclass, field, replace

from tandem_operator.core.tuning.tuning import TUNING, Tuning


@dataclass(frozen=True, slots=True)
class Level:
    """The rate at one horizon: its mean and equally likely samples around it."""

    horizon_s: float
    mean_rps: float
    samples_rps: tuple[float, ...]

    def towards(self, other: "Level", share: float) -> "Level":
        """Return the level, moved by `share` of the way to the rates of `other`."""
        pairs = zip(self.samples_rps, other.samples_rps, strict=True)
        return replace(
            self,
            mean_rps=self.mean_rps + share * (other.mean_rps - self.mean_rps),
            samples_rps=tuple(own + share * (there - own) for own, there in pairs),
        )


@dataclass(frozen=True, slots=True)
class Forecast:
    """Rates from now to the look-ahead.

    Attributes:
        lead_s: the longest start-up time.
        jumped: whether the rate surely jumped up just now.
        room: the room for a jump that the rates already contain, as a factor.
    """

    lead_s: float
    levels: tuple[Level, ...]
    jumped: bool = False
    room: float = 1.0
    tuning: Tuning = field(default=TUNING, compare=False, repr=False)

    @property
    def hasty(self) -> bool:
        """Return whether growth needs no second look: after a jump, and while new traffic climbs.

        On a first climb, later ticks soon confirm a need of one tick.
        """
        return self.jumped or self.room > 1.0

    @property
    def peak(self) -> Level:
        """Return the level with the highest mean."""
        return max(self.levels, key=lambda level: level.mean_rps)

    def at(self, horizon_s: float) -> Level:
        """Return the level nearest to `horizon_s`."""
        return min(self.levels, key=lambda level: abs(level.horizon_s - horizon_s))

    @property
    def risk(self) -> float:
        """Return how far the rate may exceed its mean after the start-up time, as a share of it."""
        lead = self.at(self.lead_s)
        least_rps = self.tuning.forecast.least_risk_rate_rps
        return max(lead.samples_rps) / max(lead.mean_rps, least_rps) - 1.0

    def proven(self) -> "Forecast":
        """Return the forecast with less beyond the start-up time, if it was right so far."""
        return self.looking_ahead(min(1.0, self.risk / self.tuning.forecast.proven_risk_share))

    def looking_ahead(self, share: float) -> "Forecast":
        """Return the forecast with `share` of its part beyond the start-up time."""
        lead = self.at(self.lead_s)
        return replace(
            self,
            levels=tuple(
                level if level.horizon_s <= self.lead_s else level.towards(lead, 1.0 - share)
                for level in self.levels
            ),
        )
