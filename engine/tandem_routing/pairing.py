"""Which prefill pod a request goes to: decode pods of the same revision make its answer.

In a rollout the first decode pod of a new revision has several prefill pods before it, or the last
one of an old revision has. So each revision's decode pods are asked by themselves, and only prefill
pods before those that bear one more are chosen from. So are decode pods that get a whole request.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from tandem_routing.decode_admission import DecodePace, bears
from tandem_routing.outstanding import Load, Outstanding
from tandem_routing.pod_choice import Choosable, least_loaded


class BeforeDecode(Choosable, Protocol):
    """A prefill pod as the choice sees it."""

    @property
    def revision(self) -> str:
        """Return whose decode pods can pull its KV blocks."""


class Coming(Protocol):
    """What was let in and is at no decode pod yet."""

    def to(self, revision: str, /) -> Load:
        """Return all that decode pods of `revision` may get."""


@dataclass(frozen=True, slots=True)
class Gate:
    """What one more stream is held against.

    Attributes:
        pace: how fast a decode pod is; `None`: it is not known, or nobody is held back.
        late: whether the request is late already.
    """

    pace: DecodePace | None
    tpot_s: float
    late: bool
    now: float


P = TypeVar("P", bound=BeforeDecode)


def pair(
    one: Load,
    prefill: Sequence[P],
    decode: Mapping[str, Sequence[Outstanding]],
    *,
    coming: Coming,
    gate: Gate,
) -> P | None:
    """Return the least loaded of `prefill` whose revision's decode pods bear `one` more.

    Among equals it is one before the decode pods with the fewest outstanding tokens. None where no
    revision bears it. `decode` has the usable pods of each revision in `prefill`.
    """
    before = {pod.revision: decode[pod.revision] for pod in prefill}
    revisions = bearing(one, before, coming=coming, gate=gate)
    if len(before) == 1:
        return least_loaded(prefill) if revisions else None
    tokens = {
        revision: _tokens_per_pod(decode[revision], coming.to(revision)) for revision in revisions
    }
    return min(
        (pod for pod in prefill if pod.revision in revisions),
        key=lambda pod: (pod.weight, pod.requests, tokens[pod.revision], pod.name),
        default=None,
    )


def bearing(
    one: Load, decode: Mapping[str, Sequence[Outstanding]], *, coming: Coming, gate: Gate
) -> set[str]:
    """Return the revisions whose decode pods bear `one` more: all where there is no gate."""
    pace = gate.pace
    if pace is None:
        return set(decode)
    return {
        revision
        for revision, pods in decode.items()
        if bears(
            pace,
            pods,
            one,
            underway=coming.to(revision),
            tpot_s=gate.tpot_s,
            late=gate.late,
            now=gate.now,
        )
    }


def _tokens_per_pod(pods: Sequence[Outstanding], coming: Load) -> float:
    return (coming.tokens + sum(pod.tokens for pod in pods)) / len(pods)
