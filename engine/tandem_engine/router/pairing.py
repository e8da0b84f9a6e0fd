"""Which prefill pod a request goes to: decode pods of the same revision make its answer.

In a rollout the first decode pod of a new revision has several prefill pods before it, or the last
one of an old revision has. So each revision's decode pods are asked by themselves, and only prefill
pods before those that bear one more are chosen from. So are decode pods that get a whole request.
"""

from collections.abc import Mapping, Sequence

from tandem_engine.router.gate import Underway
from tandem_engine.router.pod import Pod
from tandem_engine.router.settings import Settings
from tandem_routing.decode_admission import bears
from tandem_routing.outstanding import Load


def pair(
    one: Load,
    prefill: Sequence[Pod],
    decode: Mapping[str, Sequence[Pod]],
    *,
    underway: Underway,
    settings: Settings,
    late: bool,
    now: float,
) -> Pod | None:
    """Return the least loaded of `prefill` whose revision's decode pods bear `one` more.

    Among equals it is one before the decode pods with the fewest outstanding tokens. None where no
    revision bears it. `decode` has the usable pods of each revision in `prefill`.
    """
    before = {pod.endpoint.revision: decode[pod.endpoint.revision] for pod in prefill}
    revisions = bearing(one, before, underway=underway, settings=settings, late=late, now=now)
    tokens = {
        revision: _tokens_per_pod(decode[revision], underway.to(revision)) for revision in revisions
    }
    return min(
        (pod for pod in prefill if pod.endpoint.revision in revisions),
        key=lambda pod: (pod.weight, pod.requests, tokens[pod.endpoint.revision], pod.name),
        default=None,
    )


def bearing(
    one: Load,
    decode: Mapping[str, Sequence[Pod]],
    *,
    underway: Underway,
    settings: Settings,
    late: bool,
    now: float,
) -> set[str]:
    """Return the revisions whose decode pods bear `one` more: all where there is no gate."""
    pace = settings.decode
    if pace is None or not pace.gate:
        return set(decode)
    return {
        revision
        for revision, pods in decode.items()
        if bears(
            pace,
            pods,
            one,
            underway=underway.to(revision),
            tpot_s=settings.slo.tpot_s,
            late=late,
            now=now,
        )
    }


def _tokens_per_pod(pods: Sequence[Pod], underway: Load) -> float:
    return (underway.tokens + sum(pod.tokens for pod in pods)) / len(pods)
