"""The core's settings where another router than Tandem's, or none, is in front of the engines."""

from dataclasses import replace

from tandem_operator.core.tuning.tuning import TUNING, Tuning


def tuning_for(*, in_turn: bool, deadline_order: bool) -> Tuning:
    """Return the core's numbers for a router that gives prompts in turn or in order of arrival."""
    sizing = replace(TUNING.sizing, deadline_order=deadline_order)
    if in_turn:
        sizing = replace(sizing, next_job=next_in_turn)
    return replace(TUNING, sizing=sizing)


def next_in_turn(free: list[float], until: float) -> None:
    """Make the first pod busy until then; the next one has its turn, whatever it holds.

    A short prompt then waits for a long one beside idle pods.
    """
    del free[0]
    free.append(until)
