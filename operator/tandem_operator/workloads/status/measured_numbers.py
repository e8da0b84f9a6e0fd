"""The parts of a status that change with each request, and so are no news on their own.

Counts, conditions and steps are news. A decision without changes stays the same decision while only
the numbers in its sentence differ.
"""

import re
from collections.abc import Mapping
from typing import Any

_MEASURED = frozenset({"slo", "cost", "figures", "capacity", "utilization", "busy"})
_BEHIND_A_DECISION = frozenset({"inputs", "alternatives"})
_NUMBER = re.compile(r"[0-9]+(?:[.,][0-9]+)*")


def without_numbers(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a status object without the numbers that change with each request."""
    rest: dict[str, Any] = {
        key: _without(each, _MEASURED) for key, each in status.items() if key not in _MEASURED
    }
    if "decision" in rest:
        rest["decision"] = decision_without_numbers(rest["decision"])
    return rest


def decision_without_numbers(decision: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the part of a status object's decision whose change is news."""
    rest: dict[str, Any] = dict(_without(decision, _BEHIND_A_DECISION))
    if _moves(decision):
        # A step that is taken again is a separate step.
        return rest
    return {key: _masked(each) for key, each in rest.items()}


def _moves(decision: Mapping[str, Any]) -> bool:
    steps = [each for each in decision.values() if isinstance(each, Mapping) and "from" in each]
    return any(step["from"] != step.get("to") for step in steps)


def _without(value: Any, keys: frozenset[str]) -> Any:
    if isinstance(value, Mapping):
        return {key: each for key, each in value.items() if key not in keys}
    return value


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        return _NUMBER.sub("#", value)
    if isinstance(value, list):
        return [_masked(each) for each in value]
    return value
