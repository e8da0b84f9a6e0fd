"""Whether a pod's first tokens take far longer than its peers', or its machine is only busy.

Times count per token of work, including the prompts before. One standstill counts once, even if
several requests meet it. If now one pod and now another is slow, the machine is the cause.
"""

from collections.abc import Iterable, Sequence
from statistics import median

from tandem_engine.router.pods.health import FirstToken, Series, work

_TIMES_PEERS = 5.0
_TIMES_SLOWEST = 2.0
_LEAST_S = 1.0
_LEAST = 4
_SHARE = 0.6
_SPREAD_S = 1.0


def is_slow(own: Series, waits: Iterable[FirstToken], peers: Sequence[Series], now: float) -> bool:
    """Return whether most of the latest first tokens took far longer than at its peers.

    Args:
        own: the pod's own times to first token.
        waits: the waits for one there, as if it came now.
        peers: the same kind of work at its peers.
        now: the clock's time.
    """
    pace = _pace(peers, now)
    if pace is None:
        return False
    late = [wait for wait in waits if wait.seconds > _limit_s(pace, wait.tokens)]
    took = own.firsts(now)
    slow = late + [first for first in took if first.seconds > _limit_s(pace, first.tokens)]
    if len(slow) < _LEAST or len(slow) < _SHARE * (len(late) + len(took)):
        return False
    began = [first.began_s for first in slow]
    if max(began) - min(began) < _SPREAD_S:
        return False
    meanwhile = [
        first.pace for peer in peers for first in peer.firsts(now) if first.at_s >= min(began)
    ]
    typical = median(first.pace for first in slow)
    return len(meanwhile) >= _LEAST and typical > _TIMES_SLOWEST * max(meanwhile)


def slow_s(tokens: int, peers: Sequence[Series], now: float) -> float:
    """Return the time to first token above which a prompt is far slower than at the peers."""
    pace = _pace(peers, now)
    if pace is None:
        return float("inf")
    slowest = max(first.pace for peer in peers for first in peer.firsts(now))
    return max(_limit_s(pace, tokens), _TIMES_SLOWEST * slowest * work(tokens))


def _pace(peers: Sequence[Series], now: float) -> float | None:
    found = [
        median(first.pace for first in firsts) for peer in peers if (firsts := peer.firsts(now))
    ]
    return median(found) if found else None


def _limit_s(pace: float, tokens: int) -> float:
    return max(_LEAST_S, _TIMES_PEERS * pace * work(tokens))
