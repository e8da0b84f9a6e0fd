"""Whether the decode pods can bear one more stream.

Beyond the largest batch that keeps TPOT, one more stream makes every stream late; here it waits
instead, and the excess alone is late. How fast a decode pod is, the operator says.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tandem_engine.router.fleet import Pod
from tandem_engine.router.settings import DecodePace

TPOT_SHARE = 0.95
# Who is late already takes no place that somebody on time may need in a moment.
TPOT_SHARE_LATE = 0.9
KV_SHARE = 0.95


@dataclass(frozen=True, slots=True)
class Coming:
    """Requests that this router let in and that are at no decode pod yet, the next one included.

    Attributes:
        tokens: prompts and expected outputs.
        output_tokens: what a request is expected to make.
    """

    requests: int
    tokens: int
    output_tokens: float


def held_tokens(tokens: float, output_tokens: float) -> float:
    """Return what a stream that has so many tokens in the end holds in cache on average.

    Its cache grows from its prompt to prompt and output.
    """
    return max(1.0, tokens - 0.5 * output_tokens)


def bears(
    pace: DecodePace,
    pods: Sequence[Pod],
    coming: Coming,
    *,
    tpot_s: float,
    late: bool,
    now: float,
) -> bool:
    """Return whether `pods` keep TPOT, their seats and their cache once all that comes is there.

    Requests of other routers are taken to be like this router's own. A stream that could not keep
    TPOT alone waits for nothing: it is let in while there are seats. Prompts that the pods compute
    by themselves leave less time for steps.
    """
    own = sum(pod.requests for pod in pods) + coming.requests
    # An engine's own count lags behind; where there is one router, it is this one's that is right.
    streams = own + (sum(pod.others for pod in pods) if pace.routers > 1 else 0)
    if streams <= 1:
        return True
    batch = streams / len(pods)
    tokens = (sum(pod.tokens for pod in pods) + coming.tokens) / own
    kv_tokens = batch * held_tokens(tokens, coming.output_tokens)
    if batch > pace.max_num_seqs:
        return False
    if pace.kv_capacity_tokens is not None and kv_tokens > KV_SHARE * pace.kv_capacity_tokens:
        return False
    bound_s = (TPOT_SHARE_LATE if late else TPOT_SHARE) * tpot_s
    alone_s = pace.seconds(1.0, coming.tokens / coming.requests)
    life_s = max(1.0, coming.output_tokens) * tpot_s
    shares = [pod.stalls.share(now, life_s=life_s, routers=pace.routers) for pod in pods]
    moving = 1.0 - sum(shares) / len(shares)
    return alone_s > bound_s or pace.seconds(batch, kv_tokens) <= bound_s * moving
