"""A prefill engine: prompts in order of arrival, batched up to a token limit, cut into chunks."""

from collections import OrderedDict, deque
from dataclasses import dataclass, field

from tandem_operator.sim.engines.profile import EngineProfile
from tandem_operator.sim.flight import SimulatedFlight


class PrefixCache:
    """The prefix blocks that a pod holds; the least recently used go first."""

    def __init__(self, *, blocks: int) -> None:
        self._most = blocks
        self._held: OrderedDict[int, None] = OrderedDict()

    def hits(self, blocks: tuple[int, ...]) -> int:
        """Return the number of held blocks from the first one on."""
        count = 0
        for block in blocks:
            if block not in self._held:
                break
            count += 1
        return count

    def keep(self, blocks: tuple[int, ...]) -> None:
        """Hold these blocks as the most recently used."""
        for block in reversed(blocks):
            self._held[block] = None
            self._held.move_to_end(block)
        while len(self._held) > self._most:
            self._held.popitem(last=False)


@dataclass(slots=True)
class SimulatedLegs:
    """Running totals of one pod as the router sees it."""

    busy_s: float = 0.0
    since_s: float | None = None
    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    prompt_token_contexts: float = 0.0
    output_tokens: int = 0

    def busy_until(self, now_s: float) -> float:
        """Return the time with at least one request outstanding."""
        return self.busy_s + (0.0 if self.since_s is None else now_s - self.since_s)


@dataclass(slots=True)
class _Job:
    flight: SimulatedFlight
    done_tokens: int
    started: bool = False


@dataclass(slots=True, eq=False)
class PrefillPod:
    """One engine. `slowdown` stretches every pass."""

    profile: EngineProfile
    block_tokens: int
    cache: PrefixCache | None
    slowdown: float = 1.0
    jitter: tuple[float, ...] = (1.0,)
    totals: SimulatedLegs = field(default_factory=SimulatedLegs)
    outstanding_tokens: int = 0
    _passes: int = 0
    _jobs: deque[_Job] = field(default_factory=deque)
    _pass: list[tuple[_Job, int]] = field(default_factory=list)

    @property
    def requests(self) -> int:
        """Return the requests that are here, waiting or running."""
        return len(self._jobs)

    @property
    def running(self) -> int:
        """Return the requests in the present pass."""
        return len(self._pass)

    @property
    def idle(self) -> bool:
        """Return whether no pass is in progress."""
        return not self._pass

    def cached_tokens(self, flight: SimulatedFlight) -> int:
        """Return the prompt tokens that this pod need not compute; it computes at least one."""
        if self.cache is None or not flight.request.blocks:
            return 0
        hit = self.cache.hits(flight.request.blocks) * self.block_tokens
        return min(hit, flight.request.prompt_tokens - 1)

    def enter(self, flight: SimulatedFlight, now_s: float) -> None:
        """Add a request."""
        if not self._jobs:
            self.totals.since_s = now_s
        self._jobs.append(_Job(flight, done_tokens=0))
        self.outstanding_tokens += flight.request.prompt_tokens

    def start_pass(self, now_s: float) -> float | None:
        """Begin the next pass and return its end; `None` if there is nothing to do."""
        profile = self.profile
        room = profile.max_num_batched_tokens
        parts: list[tuple[int, int]] = []
        for job in self._jobs:
            if room <= 0 or len(self._pass) >= profile.max_num_seqs:
                break
            prompt = job.flight.request.prompt_tokens
            if not job.started:
                job.started = True
                job.flight.cached_tokens = job.done_tokens = self.cached_tokens(job.flight)
            tokens = min(room, prompt - job.done_tokens)
            parts.append((job.done_tokens, tokens))
            room -= tokens
            self._pass.append((job, tokens))
        if not self._pass:
            return None
        noise = self.jitter[self._passes & (len(self.jitter) - 1)]
        self._passes += 1
        return now_s + profile.pass_s(parts) * self.slowdown * noise

    def end_pass(self, now_s: float) -> list[SimulatedFlight]:
        """Finish the pass; return the requests whose whole prompt is done, in order."""
        ended: list[SimulatedFlight] = []
        for job, tokens in self._pass:
            job.done_tokens += tokens
            if job.done_tokens >= job.flight.request.prompt_tokens:
                ended.append(job.flight)
                self._jobs.popleft()
                self._count(job.flight)
        self._pass.clear()
        if not self._jobs and self.totals.since_s is not None:
            self.totals.busy_s += now_s - self.totals.since_s
            self.totals.since_s = None
        return ended

    def drop_all(self) -> list[SimulatedFlight]:
        """Drop all requests, as the death of a pod does, and return them."""
        lost = [job.flight for job in self._jobs]
        self._jobs.clear()
        self._pass.clear()
        self.outstanding_tokens = 0
        return lost

    def _count(self, flight: SimulatedFlight) -> None:
        request, cached = flight.request, flight.cached_tokens
        computed = request.prompt_tokens - cached
        self.outstanding_tokens -= request.prompt_tokens
        totals = self.totals
        totals.requests += 1
        totals.prompt_tokens += request.prompt_tokens
        totals.cached_tokens += cached
        totals.prompt_token_contexts += computed * (request.prompt_tokens - computed / 2)
        if self.cache is not None and request.blocks:
            self.cache.keep(request.blocks)
