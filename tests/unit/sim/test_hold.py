"""The rule of the last hour: each part of it with numbers worked out by hand."""

from dataclasses import replace

import pytest

from tandem_operator.core.observation import ArrivalSecond, FinishedSecond, RouterReport
from tandem_operator.core.role import Role
from tandem_operator.sim.baselines.hold import Hold
from tandem_operator.sim.cluster.pods import ColdStart
from tandem_operator.sim.engines.profile import straight_profile
from tandem_operator.sim.policy import EPOCH_S
from tandem_operator.sim.simulate import Scenario, simulate
from tandem_operator.sim.traces.generate import MmppState, mmpp
from tests.unit.sim.setups import CHAT, make_setup, make_spec
from tests.unit.sim.test_baselines import seen

pytestmark = pytest.mark.simulates

SPEC = make_spec(most=30)
# A prompt of 1,000 tokens takes 0.1 s; a step of 16, at most, takes 10 ms: 1,600 tokens/s.
ENGINE = straight_profile(
    "round",
    prefill=(0.0, 1e-4),
    step=(0.01, 0.0, 0.0),
    kv_capacity_tokens=1_000_000,
    max_num_seqs=16,
)
TOKENS_PER_S = 1600.0


class Clocked:
    """A rule that decides every five seconds, and sees so many requests in each second."""

    def __init__(self, *, hit_share: float = 0.0, output_tokens: int = 160) -> None:
        self.rule = Hold(ENGINE)
        self.now = int(EPOCH_S)
        self.rows: list[ArrivalSecond] = []
        self.ended: list[FinishedSecond] = []
        self.hit_share = hit_share
        self.output_tokens = output_tokens
        self.asked = {Role.PREFILL: 2, Role.DECODE: 2}

    def see(self, rps: int, seconds: int) -> tuple[int, int]:
        for _ in range(seconds):
            tokens = 1000 * rps
            cached = int(self.hit_share * tokens)
            self.rows.append(ArrivalSecond(self.now, (rps,), (tokens,), cached))
            made = rps * self.output_tokens
            self.ended.append(FinishedSecond(self.now, rps, rps, 0, 0, 0, 0, 0, made, 0))
            self.now += 1
            if (self.now - int(EPOCH_S)) % 5 == 0:
                self._tick()
        return self.asked[Role.PREFILL], self.asked[Role.DECODE]

    def _tick(self) -> None:
        report = RouterReport(
            router="router",
            sampled_s=float(self.now),
            started_s=EPOCH_S,
            bucket_edges_tokens=(),
            arrivals=tuple(self.rows[-240:]),
            finished=tuple(self.ended[-240:]),
            queued_requests=0,
            queued_prompt_tokens=0,
            prefill_requests=0,
            decode_requests=0,
            legs=(),
        )
        observation = replace(seen(), routers=(report,), replicas=dict(self.asked))
        self.asked = dict(self.rule.tick(SPEC, observation, float(self.now)).replicas)


def test_replicas_are_counted_as_fully_used() -> None:
    # 30 requests/s are 3.0 s of prefill work and 4,800 tokens a second: three of each.
    assert Clocked().see(30, 120) == (3, 3)
    assert Clocked().see(31, 120) == (4, 4)


def test_keeps_the_fleet_it_finds_until_twenty_seconds_are_known() -> None:
    assert Clocked().see(80, 15) == (2, 2)


def test_grows_at_once_to_what_the_last_twenty_seconds_need() -> None:
    pool = Clocked()
    pool.see(10, 600)

    # Five of twenty seconds at 90 requests/s beside fifteen at 10: 30 in the mean.
    assert pool.see(90, 5) == (3, 3)


def test_shrinks_after_a_minute_to_what_is_usual() -> None:
    pool = Clocked()
    pool.see(10, 3000)
    pool.see(90, 5)

    assert pool.see(10, 60)[0] == 3
    assert pool.see(10, 30) == (1, 1)


def test_holds_what_one_twentieth_of_the_last_hour_needed() -> None:
    pool = Clocked()
    for _ in range(4):
        pool.see(10, 540)
        pool.see(50, 60)

    assert pool.see(10, 400) == (5, 5)


def test_forgets_after_an_hour() -> None:
    pool = Clocked()
    pool.see(50, 1200)
    assert pool.see(10, 1200) == (5, 5)

    assert pool.see(10, 3600) == (1, 1)


def test_takes_off_what_caches_serve() -> None:
    assert Clocked(hit_share=0.5).see(30, 200) == (2, 3)


def test_decode_follows_the_length_of_answers() -> None:
    pool = Clocked()
    pool.see(10, 300)
    pool.output_tokens = 640

    assert pool.see(10, 300) == (1, 4)


def test_a_role_of_which_nothing_is_known_keeps_its_count() -> None:
    rule = Hold(ENGINE)

    answer = rule.tick(SPEC, replace(seen(3, 4), routers=()), EPOCH_S + 60.0)

    assert answer.replicas == {Role.PREFILL: 3, Role.DECODE: 4}


def test_second_burst_of_a_kind_finds_the_replicas_of_the_first() -> None:
    states = (MmppState(2.0, 120.0), MmppState(20.0, 60.0))
    trace = mmpp("jumps", states, span_s=1200.0, mix=CHAT, seed=3)
    setup = make_setup(trace, prefill=1, decode=1, spec=SPEC)

    report = simulate(setup, Hold(setup.profile), Scenario(pools=(), cold_start=ColdStart(30.0)))

    least = min(m.asked[Role.PREFILL] for m in report.moments if m.at_s > 600.0)
    assert least == max(m.asked[Role.PREFILL] for m in report.moments)
