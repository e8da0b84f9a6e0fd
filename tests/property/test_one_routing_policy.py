"""The live router and the simulated one hear of the same events, and make the same choices."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any, cast
from unittest.mock import patch

from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from tandem_engine.router.pods.fleet import EnginePods
from tandem_engine.router.pods.pod import Endpoint, Role
from tandem_engine.router.pods.pod import Pod as LivePod
from tandem_engine.router.scheduling import request_queue
from tandem_engine.router.scheduling.placement import PrefillPlacement
from tandem_engine.router.scheduling.request_queue import RequestQueue, TooLate
from tandem_engine.router.scheduling.waiter import Waiter
from tandem_engine.router.settings_in_force import SettingsHolder, parse_settings
from tandem_operator.core.sizing.decode_speed import TimedDecodePace
from tandem_operator.core.slo import Slo, SloClass
from tandem_operator.sim.cluster.clock import Clock
from tandem_operator.sim.cluster.pods import SimulatedPod
from tandem_operator.sim.flight import SimulatedFlight
from tandem_operator.sim.routing.router import SimulatedRouter
from tandem_operator.sim.routing.router_queue import QueueSettings
from tandem_operator.sim.routing.tenant_rules import TenantRules, named_tenant
from tandem_operator.sim.traces.trace import BLOCK_TOKENS, TraceRequest
from tandem_routing import foresight
from tandem_routing.learned import Learned
from tandem_routing.outstanding import Load
from tandem_routing.pod_choice import least_loaded
from tandem_routing.prefix_index import Prefix
from tandem_routing.tenant_shares import Tenant
from tests.unit.router.pool import settings_document
from tests.unit.sim.setups import ENGINE, make_spec

TPOT_S = 0.006
# A decode pod keeps TPOT with nine streams, and has slack for a prompt with four.
STEP_S = (0.004, 1.8e-4, 1e-9)
KV_TOKENS, SEATS, OUTPUT_TOKENS = 60_000.0, 24, 100.0
REQUESTS_PER_POD, TOKENS_PER_POD = 4, 3000
WEIGHTS = {"": 1.0, "other": 2.0}
PREFILL, DECODE = ("p0", "p1"), ("d0", "d1")

SLO = Slo(1.0, 0.0, TPOT_S, 0.99)
REFUSING = SloClass("default", SLO, refuse_late=True)
REFUSES = {"name": "default", "slo": {"ttft_s": 1.0, "tpot_s": TPOT_S}, "refuse_late": True}
REFUSED = "refused"

Choice = tuple[int, str]


@dataclass(frozen=True)
class Prompt:
    """A prompt, and the blocks by which it is known."""

    tokens: int
    blocks: tuple[int, ...]
    tenant: str = ""


@dataclass(eq=False)
class Recorder:
    """An engine that only writes down what it gets."""

    name: str
    choices: list[Choice]
    idle: bool = False

    def enter(self, flight: SimulatedFlight, now_s: float) -> None:
        self.choices.append((flight.number, self.name))

    def join(self, flight: SimulatedFlight, ready_s: float) -> None:
        self.choices.append((flight.number, self.name))


@dataclass(eq=False)
class Pods:
    """Pods of one role, of which some may be leaving."""

    pods: list[SimulatedPod[Any]]

    @property
    def serving(self) -> list[SimulatedPod[Any]]:
        return [pod for pod in self.pods if pod.serving]


class Simulated:
    """The simulator's router."""

    def __init__(self, *, refuses: bool) -> None:
        self._slo_class = REFUSING if refuses else None
        self.choices: list[Choice] = []
        self.flights: dict[int, SimulatedFlight] = {}
        self.clock = Clock()
        self.prefill, self.decode = (
            Pods(
                [
                    SimulatedPod(name, index, Recorder(name, self.choices), 1, 0.0, ready_s=0.0)
                    for index, name in enumerate(names)
                ]
            )
            for names in (PREFILL, DECODE)
        )
        self.router = SimulatedRouter(
            QueueSettings(
                requests_per_prefill_pod=REQUESTS_PER_POD,
                tokens_per_prefill_pod=TOKENS_PER_POD,
                tenants=TenantRules(
                    {name: named_tenant(name, weight=weight) for name, weight in WEIGHTS.items()}
                ),
            ),
            profile=ENGINE,
            spec=make_spec(tpot_s=TPOT_S),
            clock=self.clock,
            prefill=cast("Any", self.prefill),
            decode=cast("Any", self.decode),
            start_pass=lambda pod: None,
            advance=lambda pod: None,
            shed=lambda flight: None,
            refuse=self._refuse,
        )
        self.router.view.hear(TimedDecodePace(STEP_S, KV_TOKENS, SEATS, OUTPUT_TOKENS))

    def arrive(self, number: int, prompt: Prompt, deadline_s: float) -> None:
        request = TraceRequest(
            self.clock.now_s, prompt.tokens, 10, prompt.blocks, tenant=prompt.tenant
        )
        self.flights[number] = SimulatedFlight(request, number, deadline_s, self._slo_class)
        self.router.add(self.flights[number])

    def prefilled(self, number: int) -> None:
        flight = self.flights[number]
        flight.prefilled_s = self.clock.now_s
        # An engine that keeps half of what it is taken to keep.
        flight.cached_tokens = flight.request.prompt_tokens // 4
        self.router.view.came_back([flight], self.clock.now_s)
        self.router.pump()
        self.router.legs.hand_over(flight)
        self.router.pump()

    def first_token(self, number: int) -> None:
        self.flights[number].first_s = self.clock.now_s
        self.router.pump()

    def ended(self, number: int) -> None:
        self.router.ended(self.flights[number])
        self.router.view.left(self.flights[number], self.clock.now_s)
        self.router.pump()

    def _refuse(self, flight: SimulatedFlight) -> None:
        flight.end_s = self.clock.now_s
        self.choices.append((flight.number, REFUSED))

    def turned(self, name: str) -> None:
        (pod,) = [pod for pod in self.prefill.pods if pod.name == name]
        pod.leaving = not pod.leaving
        self.router.pump()


@dataclass(slots=True)
class Request:
    """One request at the live router, and what its pods count it as."""

    waiter: Waiter
    task: "asyncio.Task[PrefillPlacement]"
    placement: PrefillPlacement | None = None
    decode: LivePod | None = None
    load: Load = field(default_factory=lambda: Load(0))


class Live:
    """The live router's queue, and its forwarder's step at each event.

    Its knowledge of engines is the simulated router's: both learn by the same code.
    """

    def __init__(self, simulated: Simulated, *, refuses: bool) -> None:
        self._refuses = refuses
        self.choices: list[Choice] = []
        self.requests: dict[int, Request] = {}
        self._known = simulated.router.view
        self._clock = clock = simulated.clock
        self.fleet = EnginePods(lambda: clock.now_s)
        document = settings_document(
            limits={
                "prefill_requests_per_pod": REQUESTS_PER_POD,
                "prefill_tokens_per_pod": TOKENS_PER_POD,
            },
            slo={"tpot_s": TPOT_S},
            decode={
                "step_s": STEP_S,
                "kv_capacity_tokens": KV_TOKENS,
                "max_num_seqs": SEATS,
                "output_tokens": OUTPUT_TOKENS,
                "overflow": True,
            },
            classes=[REFUSES] if refuses else [],
        )
        holder = SettingsHolder(parse_settings(json.dumps(document)))
        self.waiting = RequestQueue(fleet=self.fleet, settings=holder, clock=lambda: clock.now_s)
        self.fleet.replace(
            [_endpoint(name, Role.PREFILL) for name in PREFILL]
            + [_endpoint(name, Role.DECODE) for name in DECODE]
        )

    @property
    def learned(self) -> Learned:
        return self._known.learned

    async def arrive(self, number: int, prompt: Prompt, deadline_s: float) -> None:
        prefix, caches = Prefix(prompt.blocks, BLOCK_TOKENS), self.waiting.caches
        waiter = Waiter(
            deadline_s=deadline_s,
            tokens=prompt.tokens,
            expected=lambda: self.learned.expected(
                prompt.tokens,
                output_tokens=self._known.output_tokens,
                held={pod.name: tokens for pod, tokens in caches.held(prefix).items()},
            ),
            split=True,
            prefix=prefix,
            tenant=Tenant(prompt.tenant, WEIGHTS[prompt.tenant]),
            slo_class=REFUSING.name if self._refuses else None,
            refuse_late=self._refuses,
        )
        task = asyncio.create_task(self.waiting.admit(waiter))
        request = self.requests[number] = Request(waiter, task)
        # Tasks go on in another order than they are placed in: one need not even wait.
        waiter.placed.add_done_callback(lambda placed: self._placed(number, request, placed))

    def _placed(
        self, number: int, request: Request, placed: "asyncio.Future[PrefillPlacement]"
    ) -> None:
        if placed.cancelled():
            return
        if isinstance(placed.exception(), TooLate):
            self.choices.append((number, REFUSED))
            return
        placement = request.placement = placed.result()
        if placement.prefill is not None:
            self.choices.append((number, placement.prefill.name))
        else:
            self._decode(number, request, placement.decode)

    def _decode(self, number: int, request: Request, chosen: LivePod | None) -> None:
        pods = self.fleet.usable(Role.DECODE)
        pod = chosen or least_loaded([pod for pod in pods if not pod.stalls.computing] or pods)
        assert pod is not None
        assert request.placement is not None
        output_tokens = self._known.output_tokens
        request.decode = pod
        request.load = Load(request.waiter.tokens + output_tokens, output_tokens=output_tokens)
        pod.enter(request.load, self._clock.now_s)
        self.choices.append((number, pod.name))
        self.waiting.places.arrived(request.placement)

    async def prefilled(self, number: int) -> None:
        request = self.requests[number]
        assert request.placement is not None
        self.waiting.places.left_prefill(request.placement, computed=True)
        await settle()
        self._decode(number, request, None)

    async def first_token(self, number: int) -> None:
        placement = self.requests[number].placement
        assert placement is not None
        self.waiting.places.computed(placement)
        self.waiting.pump()

    async def ended(self, number: int, first_token_s: float | None) -> None:
        request = self.requests[number]
        self.waiting.ended(request.waiter, first_token_s=first_token_s)
        self.waiting.places.release(request.decode, request.load)

    async def close(self) -> None:
        tasks = [request.task for request in self.requests.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def turned(self, name: str) -> None:
        pod = self.fleet.find(name)
        assert pod is not None
        leaving = not pod.endpoint.leaving
        self.fleet.upsert(_endpoint(name, Role.PREFILL, leaving=leaving))


def _endpoint(name: str, role: Role, *, leaving: bool = False) -> Endpoint:
    return Endpoint(name=name, role=role, host=name, port=1, leaving=leaving)


@dataclass(frozen=True)
class Arrive:
    """Requests that come one after the other, at once."""

    prompts: tuple[Prompt, ...]
    slack_s: float


@dataclass(frozen=True)
class Go:
    """The progress of one request under way; a fraction of their number tells which."""

    which: float


@dataclass(frozen=True)
class Turn:
    """A prefill pod leaves, or is back."""

    name: str


# A few beginnings, and prompts that share them or share nothing.
blocks = st.builds(
    lambda first, length: tuple(range(10 * first, 10 * first + length)),
    st.integers(0, 2),
    st.integers(0, 5),
)
prompts = st.builds(Prompt, st.integers(16, 3000), blocks, st.sampled_from(sorted(WEIGHTS)))
steps = st.one_of(
    st.builds(
        Arrive,
        st.lists(prompts, min_size=1, max_size=12).map(tuple),
        st.floats(0.01, 3.0),
    ),
    st.builds(Go, st.floats(0.0, 0.999)),
    st.builds(Go, st.floats(0.0, 0.999)),
    st.builds(Turn, st.sampled_from(PREFILL)),
)
histories = st.lists(st.tuples(st.sampled_from([0.0, 0.003, 0.05, 0.4]), steps), max_size=80)


async def settle() -> None:
    """Let every task that has its place go on."""
    for _ in range(12):
        await asyncio.sleep(0)


async def compare(
    history: list[tuple[float, Arrive | Go | Turn]], *, refuses: bool = False
) -> set[str]:
    """Tell both, and hold each choice of one against that of the other.

    With `refuses`, all requests are of one class that refuses those that would be late.
    """
    simulated = Simulated(refuses=refuses)
    live = Live(simulated, refuses=refuses)
    kinds: set[str] = set()
    number = 0
    for after_s, step in history:
        simulated.clock.now_s += after_s
        known = len(simulated.choices)
        if isinstance(step, Arrive):
            for prompt in step.prompts:
                deadline_s = simulated.clock.now_s + step.slack_s
                simulated.arrive(number, prompt, deadline_s)
                await live.arrive(number, prompt, deadline_s)
                await settle()
                number += 1
        elif isinstance(step, Turn):
            simulated.turned(step.name)
            await live.turned(step.name)
        else:
            under_way = sorted(set(dict(simulated.choices)) - _over(simulated))
            if not under_way:
                continue
            chosen = under_way[int(step.which * len(under_way))]
            at, flight = dict(simulated.choices)[chosen], simulated.flights[chosen]
            if at in PREFILL:
                simulated.prefilled(chosen)
                await live.prefilled(chosen)
            elif flight.first_s is None:
                simulated.first_token(chosen)
                await live.first_token(chosen)
            else:
                flight.end_s = simulated.clock.now_s
                simulated.ended(chosen)
                await live.ended(chosen, flight.first_s)
        await settle()

        fresh = simulated.choices[known:]
        # A simulated prompt is at its prefill pod while the look at the queue still goes on.
        assert _by_role(fresh) == _by_role(live.choices[known:])
        assert len(simulated.router.queue) == live.waiting.requests
        kinds |= {"whole" for each, at in fresh if at in DECODE and _is_whole(simulated, each)}
        kinds |= {REFUSED for _, at in fresh if at == REFUSED}
        kinds |= {"held" for _ in range(live.waiting.held)}
        kinds |= {"cached" for leg in live.requests.values() if _held_share(leg)}
    await live.close()
    return kinds


def _held_share(request: Request) -> float:
    return 0.0 if request.placement is None else request.placement.held_share


def _by_role(choices: list[Choice]) -> list[list[Choice]]:
    return [[each for each in choices if each[1] in names] for names in (PREFILL, DECODE, REFUSED)]


def _over(simulated: Simulated) -> set[int]:
    return {number for number, flight in simulated.flights.items() if flight.end_s is not None}


def _is_whole(simulated: Simulated, number: int) -> bool:
    return simulated.flights[number].overflowed


@settings(deadline=None, max_examples=100)
@given(histories)
def test_one_sequence_of_events_is_one_sequence_of_choices(
    history: list[tuple[float, Arrive | Go | Turn]],
) -> None:
    for kind in asyncio.run(compare(history)):
        event(kind)


# While no prefill pod is there, late requests go whole to decode pods. Their bounds pass there.
_SMALL = Prompt(16, ())
PLACED_LATE: list[tuple[float, Arrive | Go | Turn]] = [
    (0.0, Arrive((_SMALL,) * 10, 0.25)),
    (0.4, Turn("p0")),
    (0.0, Turn("p1")),
    (0.0, Arrive((_SMALL,) * 9, 0.25)),
    (0.4, Turn("p0")),
]


@settings(deadline=None, max_examples=100)
@given(histories)
@example(PLACED_LATE)
def test_both_refuse_the_same_requests(
    history: list[tuple[float, Arrive | Go | Turn]],
) -> None:
    # So few that a short history has a proof, and can lose it. Both look only at its events.
    with (
        patch.object(foresight, "PROOFS", 1),
        patch.object(foresight, "PROBED_EVERY", 3),
        patch.object(request_queue, "_LOOK_AGAIN_S", 1e6),
    ):
        kinds = asyncio.run(compare(history, refuses=True))
    for kind in kinds:
        event(kind)
