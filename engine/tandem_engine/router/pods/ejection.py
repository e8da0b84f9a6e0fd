"""The ejection of engine pods by the results of their work.

The model is Envoy's outlier detection. The router ejects a pod for failures in a row, for a share
of failures in a window, or for times to first token far above those of its peers. Each further
ejection lasts longer. Then a probe asks the pod for a few tokens, and one request, the trial,
decides whether it is back. Nothing else that the pod reports brings it back. At most half of a role
is ejected, except for pods that serve nothing: a probe checks those at once.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from tandem_engine.router.pods.health import CERTAIN, Attempt, PodHealth, Series, State, Why, work
from tandem_engine.router.pods.pod import Pod, Role
from tandem_engine.router.pods.slowness import is_slow, slow_s

_FAILURES = 3
_SHARE_FAILURES = 5
_SHARE = 0.2
_TIMES_PEERS_SHARE = 3.0
_STALLED_TIMES_PEERS = 4.0
_STALLED_LEAST_S = 2.0
_NOTHING_WORKS_S = 2.0
_ALIBI_S = 10.0
_BASE_S = 1.0
_LONGEST_S = 10.0
_AGAIN_S = 0.5
_FORGIVEN_S = 60.0
# As long as no trial says otherwise.
_TRIAL_S = 30.0
_TRIAL_TOKENS = 16
_NOT_PULLED = ""

Kind = Callable[[PodHealth], Series]


@dataclass(frozen=True, slots=True)
class Sick:
    """A pod that is ejected or on trial."""

    pod: Pod
    why: Why
    since_s: float


class Ejection:
    """Watches the results at every pod.

    `ejected` is called with each ejected pod; `changed` whenever the set of usable pods changes.
    """

    def __init__(
        self,
        *,
        pods: Callable[[], Iterable[Pod]],
        changed: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self._pods = pods
        self._changed = changed
        self._clock = clock
        self.ejected: Callable[[Pod, Why], None] = lambda pod, why: None

    def begin(
        self, pod: Pod, *, tokens: int, pulls: bool = False, source: Pod | None = None
    ) -> Attempt:
        """Record a request that is sent to `pod`; `close` is always its last call."""
        health, now = pod.health, self._clock()
        attempt = Attempt(pod, tokens=tokens, now=now, pulls=pulls, source=source)
        if not health.waiting:
            health.progress_s = max(health.progress_s, now)
        health.waiting[attempt] = None
        if health.taken_s is not None and health.trial is None:
            health.trial = attempt
        return attempt

    def first_token(self, attempt: Attempt) -> None:
        """Record the first token, or the whole answer of a prefill pod."""
        health, now = attempt.pod.health, self._clock()
        health.waiting.pop(attempt, None)
        attempt.given_up = False
        health.progress_s = now
        first, source = attempt.first(now), attempt.source
        series = health.pulls if attempt.pulls else health.legs
        series.first(first)
        if attempt.pod.endpoint.role is Role.DECODE:
            health.well_with[source.name if source is not None else _NOT_PULLED] = now
        if source is not None:
            pulled = source.health
            pulled.pulls.first(first)
            pulled.pulls.well(now)
            pulled.well_with[attempt.pod.name] = now
            if pulled.state is State.TRIAL and pulled.why is Why.KV:
                self._clear(source)
        still_slow = health.why is Why.SLOW and first.seconds > self._slow_s(attempt, now)
        if attempt is health.trial and still_slow:
            self._out(attempt.pod, Why.SLOW)

    def well(self, attempt: Attempt) -> None:
        """Record that the whole answer came."""
        health = attempt.pod.health
        attempt.settled = True
        health.legs.well(self._clock())
        health.lost_tokens = 0
        if attempt is health.trial and health.why is not Why.KV:
            self._clear(attempt.pod)

    def failed(self, attempt: Attempt) -> None:
        """Record that the engine did not serve a request as it should have."""
        attempt.settled = True
        now = self._clock()
        for pod in self._culprits(attempt, now):
            health = pod.health
            mine = pod is attempt.pod
            kind = _legs if mine else _pulls
            series = kind(health)
            series.failed(now)
            health.lost_tokens += attempt.tokens
            on_trial = health.state is State.TRIAL and (mine is (attempt is health.trial))
            if on_trial or series.failures >= max(1, _FAILURES - health.times):
                self.eject(pod, Why.FAILURES if mine else Why.KV)
            elif self._fails_often(pod, kind, now):
                self.eject(pod, Why.FAILURE_SHARE if mine else Why.KV)
        attempt.pod.health.waiting.pop(attempt, None)

    def close(self, attempt: Attempt) -> None:
        """Record the end of the attempt; without a result, it says nothing about the pod."""
        health = attempt.pod.health
        health.waiting.pop(attempt, None)
        awaits_pull = attempt.settled and health.why is Why.KV
        if attempt is health.trial and not awaits_pull:
            self._reopen(attempt.pod)

    def eject(self, pod: Pod, why: Why) -> bool:
        """Send nothing to `pod` for a while; return whether it is ejected.

        A pod that cannot be reached is probed twice a second. A pod beyond half of its role is
        probed at once.
        """
        health = pod.health
        if health.state is State.OUT:
            return True
        if health.state is State.IN and why not in CERTAIN and not self._within_half(pod):
            series = health.pulls if why is Why.KV else health.legs
            works = series.well_s is not None and self._clock() < series.well_s + _NOTHING_WORKS_S
            if works or why in (Why.SLOW, Why.FAILURE_SHARE):
                return False
            self._out(pod, why, for_s=0.0)
        else:
            self._out(pod, why)
        return True

    def due(self) -> list[Pod]:
        """Return the pods that a probe should test now."""
        now = self._clock()
        return [
            pod
            for pod in self._pods()
            if pod.standing and pod.health.state is State.OUT and pod.health.until_s <= now
        ]

    def next_due_s(self, *, apart_from: Collection[Pod]) -> float | None:
        """Return the time of the next probe; `None` if no pod is ejected."""
        return min(
            (
                pod.health.until_s
                for pod in self._pods()
                if pod.standing and pod.health.state is State.OUT and pod not in apart_from
            ),
            default=None,
        )

    def probed(self, pod: Pod, *, seconds: float | None) -> None:
        """Record the time of a probe to its first token; `None`: it failed."""
        health, now = pod.health, self._clock()
        if health.state is not State.OUT:
            return
        probe = Attempt(pod, tokens=0, now=now)
        if seconds is None or (health.why is Why.SLOW and seconds > self._slow_s(probe, now)):
            self._longer(health, now)
        else:
            self.try_again(pod)

    def try_again(self, pod: Pod) -> None:
        """Let the next request decide whether `pod` is back."""
        health = pod.health
        if health.state is State.OUT:
            health.state, health.back_s = State.TRIAL, self._clock()
            for series in health.series():
                series.forget()
            self._reopen(pod)

    def look(self) -> None:
        """Eject pods that are slow or hang, and forgive old ejections; call it twice a second."""
        now = self._clock()
        for pod in tuple(self._pods()):
            health = pod.health
            health.lost_tokens //= 2
            health.forget_before(now - _ALIBI_S)
            if health.state is State.TRIAL:
                self._watch_trial(pod, now)
            elif health.state is State.IN and health.times and now > health.back_s + _FORGIVEN_S:
                health.times -= 1
                health.back_s = now
            if health.state is not State.OUT:
                self._look_at(pod, now)
            elif (stalled := self._stalled(pod, now)) is not None:
                # Pulls were given up when it was put out; this is what waited behind them.
                health.end_like(stalled, now=now)

    def sick(self) -> list[Sick]:
        """Return the pods that should serve but are ejected or on trial.

        A pod that was ejected once, and has passed its probe, only waits for a trial request. It is
        not listed, because a pause in traffic is no fault.
        """
        return [
            Sick(pod, health.why, health.since_s)
            for pod in self._pods()
            if pod.standing
            and (health := pod.health).why is not None
            and not (health.admits and health.times <= 1)
        ]

    def _look_at(self, pod: Pod, now: float) -> None:
        health = pod.health
        stalled = self._stalled(pod, now)
        if stalled is not None:
            culprits = self._culprits(stalled, now)
            for culprit in culprits:
                self.eject(culprit, Why.NO_PROGRESS if culprit is pod else Why.KV)
            if not culprits:
                # Both serve others: what they cannot do together another pod can.
                stalled.abandon()
            elif not pod.health.admits or pod not in culprits:
                health.end_like(stalled, now=now)
        elif self._is_slow(pod, _legs, now):
            self.eject(pod, Why.SLOW)
        elif self._is_slow(pod, _pulls, now):
            self.eject(pod, Why.KV if pod.endpoint.role is Role.PREFILL else Why.SLOW)

    def _watch_trial(self, pod: Pod, now: float) -> None:
        health = pod.health
        trial, taken_s = health.trial, health.taken_s
        if trial is not None and trial.tokens_made() >= _TRIAL_TOKENS:
            self._clear(pod)
        elif taken_s is not None:
            if now > taken_s + (_ALIBI_S if trial is None else _TRIAL_S):
                self._reopen(pod)
        elif now > health.back_s + _TRIAL_S and health.why is not Why.KV:
            # No request came, and the tokens of the probe are enough.
            self._clear(pod)

    def _stalled(self, pod: Pod, now: float) -> Attempt | None:
        """Return the longest waiting attempt if the pod makes no token and its peers do."""
        health = pod.health
        oldest = next(iter(health.waiting), None)
        if oldest is None:
            return None
        tokens = sum(attempt.tokens for attempt in health.waiting)
        peers = tuple(self._peers(pod))
        paces = [
            first.pace
            for peer in peers
            for series in peer.health.series()
            for first in series.firsts(now)
        ]
        if not paces:
            return None
        patience_s = max(_STALLED_LEAST_S, _STALLED_TIMES_PEERS * max(paces) * work(tokens))
        since_s = max(oldest.began_s, health.progress_s, health.relieved_s)
        moving = any(peer.health.progress_s > now - 0.5 * patience_s for peer in peers)
        return oldest if moving and now > since_s + patience_s else None

    def _is_slow(self, pod: Pod, kind: Kind, now: float) -> bool:
        """Return whether most of the latest first tokens took far longer than at its peers."""
        waits = (
            attempt.first(now)
            for attempt in pod.health.waiting
            if attempt.pulls is (kind is _pulls)
        )
        return is_slow(kind(pod.health), waits, self._peers_series(pod, kind), now)

    def _slow_s(self, attempt: Attempt, now: float) -> float:
        """Return the time to first token above which the attempt is far slower than at peers."""
        series = self._peers_series(attempt.pod, _pulls if attempt.pulls else _legs)
        return slow_s(attempt.tokens + attempt.ahead, series, now)

    def _peers_series(self, pod: Pod, kind: Kind) -> list[Series]:
        return [kind(peer.health) for peer in self._peers(pod)]

    def _fails_often(self, pod: Pod, kind: Kind, now: float) -> bool:
        failed, ended = kind(pod.health).counts(now)
        if failed < _SHARE_FAILURES or failed < _SHARE * ended:
            return False
        others = [kind(peer.health).counts(now) for peer in self._peers(pod)]
        theirs = sum(failed for failed, _ in others) / max(1, sum(ended for _, ended in others))
        return failed / ended > _TIMES_PEERS_SHARE * theirs

    def _culprits(self, attempt: Attempt, now: float) -> list[Pod]:
        """Return the pods at fault: of the two involved, the one that served nothing else recently.

        A decode pod is at fault if it fails with the KV blocks of all prefill pods. A prefill pod
        is at fault if its blocks fail at all decode pods.
        """
        pod, source = attempt.pod, attempt.source
        if not attempt.pulls or attempt not in pod.health.waiting:
            return [pod]
        if source is None or not source.standing or source.health.why in CERTAIN:
            return []
        pod_works = _worked(pod.health, without=source.name, now=now)
        source_works = _worked(source.health, without=pod.name, now=now)
        if pod_works and source_works:
            return []
        if pod_works:
            return [source]
        return [pod] if source_works else [pod, source]

    def _peers(self, pod: Pod) -> Iterator[Pod]:
        """Return the other pods of its role that should serve."""
        role = pod.endpoint.role
        return (
            peer
            for peer in self._pods()
            if peer is not pod and peer.endpoint.role is role and peer.standing
        )

    def _within_half(self, pod: Pod) -> bool:
        peers = tuple(self._peers(pod))
        out = 1 + sum(peer.health.state is not State.IN for peer in peers)
        return 2 * out <= len(peers) + 1

    def _out(self, pod: Pod, why: Why, *, for_s: float | None = None) -> None:
        health, now = pod.health, self._clock()
        if health.why is None:
            health.since_s = now
        health.state, health.why = State.OUT, why
        health.trial = health.taken_s = None
        self._longer(health, now)
        if for_s is not None:
            health.until_s = now + for_s
        self.ejected(pod, why)
        self._changed()

    def _longer(self, health: PodHealth, now: float) -> None:
        """Delay the next probe, for longer each time, unless a probe costs nothing."""
        if health.why in CERTAIN:
            health.until_s = now + _AGAIN_S
            return
        health.until_s = now + min(_LONGEST_S, _BASE_S * 2**health.times)
        health.times = min(health.times + 1, 8)

    def _reopen(self, pod: Pod) -> None:
        health = pod.health
        health.trial = health.taken_s = None
        self._changed()

    def _clear(self, pod: Pod) -> None:
        health = pod.health
        health.state, health.why, health.back_s = State.IN, None, self._clock()
        health.trial = health.taken_s = None
        self._changed()


def _legs(health: PodHealth) -> Series:
    return health.legs


def _pulls(health: PodHealth) -> Series:
    return health.pulls


def _worked(health: PodHealth, *, without: str, now: float) -> bool:
    return any(at_s > now - _ALIBI_S for name, at_s in health.well_with.items() if name != without)
