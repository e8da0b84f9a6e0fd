"""The core where another router than Tandem's is in front of the engines, or none."""

from dataclasses import replace

from tandem_operator.core.tuning.tuning import TUNING, Tuning


def tuning_for(*, in_turn: bool, deadline_order: bool) -> Tuning:
    """The core's numbers for a router that gives prompts in turn, or lets none pass another."""
    sizing = replace(TUNING.sizing, deadline_order=deadline_order)
    if in_turn:
        sizing = replace(sizing, next_job=next_in_turn)
    return replace(TUNING, sizing=sizing)


def next_in_turn(free: list[float], until: float) -> None:
    """The first pod is busy until then, and the next one has its turn, whatever it holds.

    A short prompt then waits for a long one beside idle pods.
    """
    del free[0]
    free.append(until)
