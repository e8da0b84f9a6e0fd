"""A decode engine: continuous batching, one token per running request and step.

The pod stays in the past until `advance` runs it step by step up to a moment. A step that would end
later is not begun. So a request that joins meanwhile meets the right batch. Invariant: the held KV
tokens are those of all requests inside, and never exceed the capacity.
"""

from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from tandem_operator.sim.engines.profile import EngineProfile
from tandem_operator.sim.flight import SimulatedFlight
from tandem_routing.verdict import Ending

NEVER_S = float("inf")
FIRST_IN_LINE_S = -1.0
# Room for the batch to grow before the next request is admitted: this avoids preemption.
WATERMARK = 0.01


@dataclass(slots=True, eq=False)
class DecodePod:
    """One engine. Requests that ended since the last look are in `ended`, in order."""

    profile: EngineProfile
    slowdown: float = 1.0
    jitter: tuple[float, ...] = (1.0,)
    at_s: float = 0.0
    ended: list[SimulatedFlight] = field(default_factory=list)
    itl_sum_s: float = 0.0
    itl_count: int = 0
    tokens_made: int = 0
    preemptions: int = 0
    transfer_sum_s: float = 0.0
    transfer_count: int = 0
    kv_tokens: int = 0
    _steps: int = 0
    _running: list[tuple[int, int, SimulatedFlight]] = field(default_factory=list)
    _started: dict[int, int] = field(default_factory=dict)
    _starts: int = 0
    _fresh: list[SimulatedFlight] = field(default_factory=list)
    _waiting: list[tuple[float, int, SimulatedFlight]] = field(default_factory=list)
    _computing: list[SimulatedFlight] = field(default_factory=list)

    @property
    def requests(self) -> int:
        """Return the requests that are here, waiting or running."""
        return len(self._running) + len(self._waiting) + len(self._computing)

    @property
    def running(self) -> int:
        """Return the requests in the batch."""
        return len(self._running) + len(self._computing)

    @property
    def computing(self) -> int:
        """Return the requests whose prompt this pod computes itself."""
        return len(self._computing)

    def waiting(self, now_s: float) -> int:
        """Return the requests whose KV is here and that are not admitted yet."""
        return sum(1 for ready_s, _, _ in self._waiting if ready_s <= now_s)

    def fits(self, prompt_tokens: int, output_tokens: int) -> bool:
        """Return whether a request could run here alone."""
        return prompt_tokens + output_tokens <= self.profile.kv_capacity_tokens

    def join(self, flight: SimulatedFlight, ready_s: float) -> None:
        """Add a request whose KV is here from `ready_s` on."""
        if flight.compute_tokens == 0:
            self.transfer_sum_s += flight.handover_s
            self.transfer_count += 1
        heappush(self._waiting, (ready_s, flight.number, flight))

    def advance(self, until_s: float) -> None:
        """Run all steps that end by `until_s`."""
        while True:
            if not self._running and not self._computing:
                if not self._waiting or self._waiting[0][0] > until_s:
                    return
                self.at_s = max(self.at_s, self._waiting[0][0])
            blocked = self._admit()
            if self._computing:
                if not self._mixed_step(until_s):
                    return
            elif not self._plain_steps(until_s, blocked=blocked):
                return

    def drop_all(self) -> list[SimulatedFlight]:
        """Drop all requests, as the death of a pod does, and return them."""
        lost = [entry[2] for entry in (*self._running, *self._waiting)] + self._computing
        for flight in (entry[2] for entry in self._running):
            flight.made = self._made(flight)
        for held in (self._running, self._waiting, self._computing, self._fresh):
            held.clear()
        self._started.clear()
        self.kv_tokens = 0
        return sorted(lost, key=lambda flight: flight.number)

    def _made(self, flight: SimulatedFlight) -> int:
        return flight.made + self._steps - self._started[flight.number]

    def _admit(self) -> bool:
        """Admit requests that are here and fit; return whether the next one must wait for room."""
        capacity = self.profile.kv_capacity_tokens
        while self._waiting and self._waiting[0][0] <= self.at_s:
            inside = len(self._running) + len(self._computing)
            flight = self._waiting[0][2]
            need = flight.request.prompt_tokens + flight.made
            if inside:
                limit = capacity * (1.0 - WATERMARK)
                full = self.kv_tokens + need + inside + 1 > limit
                if full or inside >= self.profile.max_num_seqs:
                    return True
            heappop(self._waiting)
            self.kv_tokens += need
            if flight.compute_tokens > 0:
                self._computing.append(flight)
            else:
                self._run(flight)
                if flight.first_s is None:
                    self._fresh.append(flight)
        return False

    def _run(self, flight: SimulatedFlight) -> None:
        left = flight.request.output_tokens - flight.made
        self._started[flight.number] = self._steps
        self._starts += 1
        heappush(self._running, (self._steps + left, self._starts, flight))

    def _plain_steps(self, until_s: float, *, blocked: bool) -> bool:
        """Run steps of one batch until a request ends or may join; return false if time is up."""
        batch, slow = len(self._running), self.slowdown
        at_s, kv, steps = self.at_s, self.kv_tokens, self._steps
        goal = steps + 1 if self._fresh else self._running[0][0]
        next_s = self._waiting[0][0] if self._waiting and not blocked else NEVER_S
        room = self.profile.kv_capacity_tokens - batch
        if kv > room:
            self._preempt()
            return True
        line = self.profile.line(batch, kv)
        fixed_s, per_token_s, until_kv = line.fixed_s, line.per_token_s, line.until_kv
        jitter, wrap = self.jitter, len(self.jitter) - 1
        in_time = True
        while steps < goal and kv <= room and at_s < next_s:
            if kv >= until_kv:
                line = self.profile.line(batch, kv)
                fixed_s, per_token_s, until_kv = line.fixed_s, line.per_token_s, line.until_kv
            end_s = at_s + (fixed_s + per_token_s * kv) * slow * jitter[steps & wrap]
            if end_s > until_s:
                in_time = False
                break
            at_s = end_s
            kv += batch
            steps += 1
        made = steps - self._steps
        if made:
            gaps = batch * made - len(self._fresh)
            self.itl_count += gaps
            self.itl_sum_s += gaps * (at_s - self.at_s) / made
            self.tokens_made += batch * made
            self.at_s, self.kv_tokens, self._steps = at_s, kv, steps
            self._settle()
        return in_time

    def _mixed_step(self, until_s: float) -> bool:
        """Run one step that also computes a chunk of a prompt; return false if it ends too late."""
        batch = len(self._running)
        if self.kv_tokens + batch + 1 > self.profile.kv_capacity_tokens and batch:
            self._preempt()
            return True
        flight = self._computing[0]
        before = flight.request.prompt_tokens + flight.made - flight.compute_tokens
        tokens = min(flight.compute_tokens, max(1, self.profile.max_num_batched_tokens - batch))
        cost_s = self.profile.pass_s([(before, tokens)])
        if batch:
            # One pass does both: the fixed cost of a pass occurs once.
            cost_s += self.profile.step_s(batch, self.kv_tokens) - self.profile.work_s(0)
        noise = self.jitter[self._steps & (len(self.jitter) - 1)]
        end_s = self.at_s + cost_s * self.slowdown * noise
        if end_s > until_s:
            return False
        gaps = batch - len(self._fresh)
        self.itl_count += gaps
        self.itl_sum_s += gaps * (end_s - self.at_s)
        self.tokens_made += batch
        self.at_s = end_s
        self.kv_tokens += batch
        self._steps += 1
        flight.compute_tokens -= tokens
        if flight.compute_tokens == 0:
            # The pass over the last chunk yields the next token by itself.
            self._computing.pop(0)
            flight.made += 1
            self.tokens_made += 1
            self.kv_tokens += 1
            if flight.first_s is None:
                flight.first_s = end_s
            self._run(flight)
        self._settle()
        return True

    def _settle(self) -> None:
        """Note first tokens, and remove requests that have all their tokens."""
        for flight in self._fresh:
            flight.first_s = self.at_s
        self._fresh.clear()
        while self._running and self._running[0][0] <= self._steps:
            flight = heappop(self._running)[2]
            del self._started[flight.number]
            flight.made = flight.request.output_tokens
            flight.end_s = self.at_s
            flight.ending = Ending.ANSWERED
            self.kv_tokens -= flight.request.prompt_tokens + flight.made
            self.ended.append(flight)

    def _preempt(self) -> None:
        """Put the request that started last back in the queue; its KV must be computed again."""
        entry = max(self._running, key=lambda each: each[1])
        flight = entry[2]
        self._running.remove(entry)
        heapify(self._running)
        flight.made = self._made(flight)
        self.kv_tokens -= flight.request.prompt_tokens + flight.made
        flight.compute_tokens = flight.request.prompt_tokens + flight.made
        del self._started[flight.number]
        if flight in self._fresh:
            self._fresh.remove(flight)
        self.preemptions += 1
        heappush(self._waiting, (FIRST_IN_LINE_S, flight.number, flight))
