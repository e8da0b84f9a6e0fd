"""The plan of a load: seeded Poisson arrivals and mixed lengths, fixed before the start.

The plan never looks at answers. A slow server gets the next request just as early, which is what
makes the load open-loop: waiting for answers would hide the overload that is to be measured.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

FIRST_PLAIN_TOKEN_ID = 16
"""The first id that is no special token: tokenizers keep those below it."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """A whole number of tokens drawn evenly from `low` to `high`, both included."""

    low: int
    high: int

    def __post_init__(self) -> None:
        """Refuse what cannot be drawn from."""
        if not 1 <= self.low <= self.high:
            raise ValueError(f"lengths are 1 <= LOW <= HIGH, such as 200-400, not {self}")

    @classmethod
    def parse(cls, text: str) -> "Lengths":
        """Read `200-400`, or `300` for always the same."""
        low, _, high = text.partition("-")
        if not low.isdecimal() or (high and not high.isdecimal()):
            raise ValueError(f"lengths are written 200-400 or 300, not {text!r}")
        return cls(low=int(low), high=int(high or low))

    def draw(self, rng: random.Random) -> int:
        """Return one length."""
        return rng.randint(self.low, self.high)

    @property
    def mean(self) -> float:
        """Return the mean of the draws."""
        return 0.5 * (self.low + self.high)

    def __str__(self) -> str:
        """Return the text that `parse` reads."""
        return f"{self.low}-{self.high}"


@dataclass(frozen=True, slots=True)
class Traffic:
    """A stretch of steady traffic: how much, for how long, and how long its requests are."""

    name: str
    rate_rps: float
    duration_s: float
    prompt_tokens: Lengths
    output_tokens: Lengths

    def __post_init__(self) -> None:
        """Refuse traffic that would never send anything."""
        if self.rate_rps <= 0 or self.duration_s <= 0:
            raise ValueError("rate_rps and duration_s are above zero, such as 4 and 60")


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """One request to come, `at_s` seconds after the start of its traffic.

    Attributes:
        streamed: whether its client reads token by token; else it waits for the whole answer.
        cache_salt: the salt that keeps engines from serving it out of another request's prefix.
        wants_token_ids: whether its record is to hold the tokens of the answer.
    """

    request_id: str
    at_s: float
    prompt_token_ids: tuple[int, ...]
    output_tokens: int
    streamed: bool = True
    cache_salt: str | None = None
    wants_token_ids: bool = False


def plan_requests(
    traffic: Traffic, *, seed: int, vocabulary: int = 1024, run: str = "load"
) -> Iterator[PlannedRequest]:
    """Yield the requests of `traffic` in order; equal seeds give equal plans.

    Every prompt is random from its first token on, so that no prefix cache can serve it.
    """
    rng = random.Random(f"{seed}/{traffic.name}")
    at_s = rng.expovariate(traffic.rate_rps)
    number = 0
    while at_s < traffic.duration_s:
        length = traffic.prompt_tokens.draw(rng)
        yield PlannedRequest(
            request_id=f"{run}-{traffic.name}-{number:05d}",
            at_s=at_s,
            prompt_token_ids=tuple(rng.choices(range(FIRST_PLAIN_TOKEN_ID, vocabulary), k=length)),
            output_tokens=traffic.output_tokens.draw(rng),
        )
        number += 1
        at_s += rng.expovariate(traffic.rate_rps)
