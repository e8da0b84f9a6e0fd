"""Which beginnings of prompts prefill pods should have in their caches, by what they were sent.

A prompt is told by marks, one for each stretch of it, each of which stands for all before it too.
An engine lets go of what was used longest ago, the end of a prompt before its beginning; so does
the index, at as many tokens as an engine holds. Nothing here is certain: an entry that is wrong
costs the time of a prompt that is computed, never its answer.
"""

from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Generic, TypeVar

from tandem_routing.cache_worth import CacheWorth

MOST_MARKS = 131_072
"""Of all pods together."""
USUAL_CAPACITY_TOKENS = 500_000
"""What a pod is taken to hold while nobody has said it."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """What others may share of one prompt.

    Attributes:
        marks: of its stretches, from its beginning on.
        tokens: of one stretch.
    """

    marks: Sequence[int] = ()
    tokens: float = 0.0


NO_PREFIX = Prefix()

K = TypeVar("K", bound=Hashable)


class _Cache:
    """What one pod should have; `bit` stands for it among those that have a mark."""

    __slots__ = ("bit", "kept", "tokens", "under_way")

    def __init__(self, bit: int) -> None:
        self.bit = bit
        self.tokens = 0.0
        # Of each mark its tokens and when it was used last, the longest ago first.
        self.kept: OrderedDict[int, tuple[float, int]] = OrderedDict()
        self.under_way: Counter[int] = Counter()


class PrefixIndex(Generic[K]):
    """What each pod should have cached.

    Attributes:
        capacity_tokens: what one pod holds.
        worth: what the cache of each pod saved lately.
    """

    def __init__(self, *, most_marks: int = MOST_MARKS) -> None:
        self.worth: CacheWorth[K] = CacheWorth()
        self.capacity_tokens: float = USUAL_CAPACITY_TOKENS
        self._most_marks = most_marks
        self._caches: dict[K, _Cache] = {}
        self._by_bit: dict[int, K] = {}
        self._holders: dict[int, int] = {}
        self._used = 0
        self._marks = 0

    @property
    def marks(self) -> int:
        """Return how many marks it has, each counted once for every pod that has it."""
        return self._marks

    def held(self, prefix: Prefix) -> Mapping[K, int]:
        """Return how many tokens of a prompt each pod should have; no pod that has none."""
        found: dict[K, int] = {}
        if not self._holders or not prefix.marks:
            return found
        left, depth = -1, 0
        for mark in prefix.marks:
            holders = self._holders.get(mark, 0) & left
            if depth and holders != left:
                self._note(found, left & ~holders, round(depth * prefix.tokens))
            left = holders
            if not left:
                return found
            depth += 1
        self._note(found, left, round(depth * prefix.tokens))
        return found

    def sent(self, pod: K, prefix: Prefix) -> None:
        """Take note that `pod` was sent a prompt: one that comes behind it there finds it."""
        if prefix.marks:
            cache = self._cache(pod)
            cache.under_way.update(prefix.marks)
            self._hold(prefix.marks, cache)

    def ended(self, pod: K, prefix: Prefix, *, computed: bool) -> None:
        """Take note that a prompt is at `pod` no more; where it was `computed`, its cache has it.

        What is refused or fails takes nobody's place.
        """
        cache = self._caches.get(pod)
        if cache is None or not prefix.marks:
            return
        for mark in prefix.marks:
            if cache.under_way[mark] > 1:
                cache.under_way[mark] -= 1
                continue
            del cache.under_way[mark]
            if not computed and mark not in cache.kept:
                self._drop(mark, cache)
        if computed:
            self._keep(cache, prefix)

    def heard(self, pod: K, prefix: Prefix) -> None:
        """Take note that another router had `pod` compute a prompt."""
        if prefix.marks:
            self._keep(self._cache(pod), prefix)

    def forget(self, pod: K) -> None:
        """Forget a pod that is gone, or whose engine began anew."""
        self.worth.forget(pod)
        cache = self._caches.pop(pod, None)
        if cache is not None:
            del self._by_bit[cache.bit]
            for mark in chain(cache.kept, cache.under_way):
                self._drop(mark, cache)

    def forget_all(self) -> None:
        """Forget every pod."""
        self.worth.forget_all()
        self._caches.clear()
        self._by_bit.clear()
        self._holders.clear()
        self._marks = 0

    def loss(self, pod: K, tokens: float) -> int:
        """Return when that was used last which `tokens` more at `pod` displace; 0: nothing is."""
        cache = self._caches.get(pod)
        if cache is None or cache.tokens + tokens <= self.capacity_tokens or not cache.kept:
            return 0
        return next(iter(cache.kept.values()))[1]

    def _keep(self, cache: _Cache, prefix: Prefix) -> None:
        self._used += 1
        kept = cache.kept
        for mark in reversed(prefix.marks):
            before = kept.pop(mark, None)
            cache.tokens += prefix.tokens - (0.0 if before is None else before[0])
            kept[mark] = prefix.tokens, self._used
        self._hold(prefix.marks, cache)
        self._shrink(cache)

    def _shrink(self, cache: _Cache) -> None:
        """Let go of what a pod has no room for, or this index for the pod."""
        kept, most = cache.kept, self._most_marks // len(self._caches)
        while kept and (cache.tokens > self.capacity_tokens or len(kept) > most):
            mark, (tokens, _) = kept.popitem(last=False)
            cache.tokens -= tokens
            if mark not in cache.under_way:
                self._drop(mark, cache)

    def _cache(self, pod: K) -> _Cache:
        cache = self._caches.get(pod)
        if cache is None:
            bit = 1
            while bit in self._by_bit:
                bit <<= 1
            cache = self._caches[pod] = _Cache(bit)
            self._by_bit[bit] = pod
            # The more pods there are, the less room each of them has.
            for each in self._caches.values():
                self._shrink(each)
        return cache

    def _hold(self, marks: Iterable[int], cache: _Cache) -> None:
        holders, bit = self._holders, cache.bit
        for mark in marks:
            before = holders.get(mark, 0)
            if not before & bit:
                holders[mark] = before | bit
                self._marks += 1

    def _drop(self, mark: int, cache: _Cache) -> None:
        before = self._holders.get(mark, 0)
        if not before & cache.bit:
            return
        self._marks -= 1
        if others := before & ~cache.bit:
            self._holders[mark] = others
        else:
            del self._holders[mark]

    def _note(self, found: dict[K, int], bits: int, tokens: int) -> None:
        while bits:
            bit = bits & -bits
            found[self._by_bit[bit]] = tokens
            bits ^= bit
