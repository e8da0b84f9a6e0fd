"""The prefill pod for a request, whose revision has decode pods that can take the answer.

In a rollout, the first decode pod of a new revision can have several prefill pods before it. So can
the last one of an old revision. So the router checks the decode pods of each revision separately.
It chooses only among prefill pods whose decode pods can take one more. The same holds for decode
pods that serve a whole request.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from tandem_routing.decode_admission import DecodePace, bears
from tandem_routing.outstanding import Load, Outstanding
from tandem_routing.prefix_placement import Computing, ToCompute, soonest


class BeforeDecode(Computing, Protocol):
    """A prefill pod as this choice sees it."""

    @property
    def revision(self) -> str:
        """Return the revision whose decode pods can pull its KV blocks."""


class Coming(Protocol):
    """Admitted requests that have not reached a decode pod yet."""

    def to(self, revision: str, /) -> Load:
        """Return the whole load that decode pods of `revision` may get."""


@dataclass(frozen=True, slots=True)
class Gate:
    """The conditions for one more stream.

    Attributes:
        pace: the speed of a decode pod; `None`: it is not known, or decode admission is off.
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
    prompt: ToCompute[P],
    coming: Coming,
    gate: Gate,
) -> P | None:
    """Return the best of the `prefill` pods whose revision's decode pods can take `one` more.

    If any of these pods has a part of the prompt cached, it is the pod that would finish the prompt
    first, else the least loaded one. Among equals, it is the one before the decode pods with the
    fewest outstanding tokens, and then the one whose cache loses least. Return `None` if no
    revision can take it. `decode` has the usable pods of each revision in `prefill`.
    """
    before = {pod.revision: decode[pod.revision] for pod in prefill}
    revisions = bearing(one, before, coming=coming, gate=gate)
    borne = [pod for pod in prefill if pod.revision in revisions]
    near = prompt.expected.near
    if near and any(pod.name in near for pod in borne):
        return soonest(borne, prompt, now=gate.now)
    tokens = dict.fromkeys(revisions, 0.0)
    if len(before) > 1:
        tokens = {
            revision: _tokens_per_pod(decode[revision], coming.to(revision))
            for revision in revisions
        }
    return min(
        borne,
        key=lambda pod: (
            pod.weight,
            pod.requests,
            tokens[pod.revision],
            prompt.caches.loss(pod, prompt.tokens),
            pod.name,
        ),
        default=None,
    )


def bearing(
    one: Load, decode: Mapping[str, Sequence[Outstanding]], *, coming: Coming, gate: Gate
) -> set[str]:
    """Return the revisions whose decode pods can take `one` more; all of them without a gate."""
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
