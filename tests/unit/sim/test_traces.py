"""Made and derived traces: their rates, their order, their sameness for one seed."""

from itertools import pairwise
from math import inf, nan
from random import Random

import pytest

from tandem_operator.sim.traces.generate import (
    Agents,
    Lengths,
    Mix,
    MmppState,
    agents,
    burst,
    constant,
    diurnal,
    mmpp,
    poisson,
    ramp,
    sine,
    step,
)
from tandem_operator.sim.traces.trace import (
    Trace,
    TraceRequest,
    in_order,
    joined,
    lengthened,
    resampled,
    scaled,
    sped_up,
    spread,
    window,
)
from tests.unit.sim.setups import CHAT, of, steady

pytestmark = pytest.mark.simulates

SHORT = Mix(Lengths(100), Lengths(10))


def count(trace: Trace, start_s: float, end_s: float) -> int:
    return sum(1 for r in trace.requests if start_s <= r.at_s < end_s)


@pytest.mark.parametrize(
    ("rate", "early", "late"),
    [
        (constant(10.0), 1000, 1000),
        (ramp(0.0, 20.0, begin_s=0.0, end_s=200.0), 500, 1500),
        (step(4.0, 16.0, at_s=100.0), 400, 1600),
        (sine(0.0, 20.0, period_s=400.0), 363, 1637),
        (burst(constant(5.0), factor=3.0, begin_s=150.0, end_s=200.0), 500, 1000),
    ],
)
def test_arrivals_follow_the_rate(rate, early: int, late: int) -> None:
    trace = poisson("made", rate, most_rps=20.0, span_s=200.0, mix=SHORT, seed=3)

    assert count(trace, 0.0, 100.0) == pytest.approx(early, rel=0.15)
    assert count(trace, 100.0, 200.0) == pytest.approx(late, rel=0.15)


def test_a_day_is_quiet_at_night_and_busy_by_day() -> None:
    rate = diurnal(1.0, 20.0)

    assert rate(4 * 3600.0) < 5.0
    assert max(rate(hour * 3600.0) for hour in range(24)) == pytest.approx(20.0, rel=0.05)
    assert min(rate(hour * 3600.0) for hour in range(24)) >= 1.0


def test_a_rate_above_its_bound_is_refused_and_not_cut() -> None:
    with pytest.raises(ValueError, match="outside 0 to most_rps=5"):
        poisson("made", constant(6.0), most_rps=5.0, span_s=100.0, mix=SHORT, seed=1)


@pytest.mark.parametrize("value", [0.0, -1.0, nan, inf])
@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda value: sine(1.0, 2.0, period_s=value), "period_s of a wave must be above 0"),
        (lambda value: diurnal(1.0, 2.0, day_s=value), "day_s of a day must be above 0"),
        (
            lambda value: poisson(
                "made", constant(1.0), most_rps=value, span_s=9.0, mix=SHORT, seed=1
            ),
            "most_rps of a trace must be above 0",
        ),
        (
            lambda value: poisson(
                "made", constant(1.0), most_rps=1.0, span_s=value, mix=SHORT, seed=1
            ),
            "span_s of a trace must be above 0",
        ),
        (lambda value: MmppState(1.0, value), "mean_s of a state must be above 0"),
        (
            lambda value: mmpp("made", (MmppState(1.0, 1.0),) * 2, span_s=value, mix=SHORT, seed=1),
            "span_s of a trace must be above 0",
        ),
        (lambda value: Agents(1, think_s=value), "think_s of agents must be above 0"),
        (lambda value: Agents(1, rest_s=value), "rest_s of agents must be above 0"),
        (lambda value: Agents(1, growth_tokens=value), "growth_tokens of agents must be above 0"),
        (lambda value: Agents(1, calls=value), "agents need a count and calls of at least 1"),
        (
            lambda value: agents("made", Agents(1), span_s=value, mix=SHORT, seed=1),
            "span_s of a trace must be above 0",
        ),
    ],
)
def test_traffic_that_cannot_be_is_refused_with_a_sentence(
    make, sentence: str, value: float
) -> None:
    with pytest.raises(ValueError, match=sentence):
        make(value)


@pytest.mark.parametrize("value", [-1.0, nan, inf])
def test_rates_and_sigmas_may_be_zero_but_not_less_nor_without_end(value: float) -> None:
    with pytest.raises(ValueError, match="a state needs a rate of at least 0"):
        MmppState(value, 1.0)
    with pytest.raises(ValueError, match="a sigma of at least 0"):
        Lengths(100.0, value)


@pytest.mark.parametrize("seed", range(3))
def test_a_modulated_process_keeps_the_mean_of_its_states_by_their_time(seed: int) -> None:
    states = (MmppState(2.0, 30.0), MmppState(30.0, 10.0))

    trace = mmpp("made", states, span_s=40_000.0, mix=SHORT, seed=seed)

    assert trace.rate_rps == pytest.approx(9.0, rel=0.1)


def test_a_modulated_process_is_burstier_than_a_poisson_process() -> None:
    states = (MmppState(2.0, 30.0), MmppState(30.0, 10.0))
    trace = mmpp("made", states, span_s=2000.0, mix=SHORT, seed=1)

    counts = [count(trace, at, at + 10.0) for at in range(0, 2000, 10)]
    mean = sum(counts) / len(counts)
    variance = sum((c - mean) ** 2 for c in counts) / len(counts)
    assert variance / mean > 5.0


def test_an_agents_session_sends_its_whole_history_again() -> None:
    kind = Agents(count=1, calls=6.0, rest_s=1.0)
    trace = agents("made", kind, span_s=200.0, mix=CHAT, seed=2)

    sessions: dict[int, list[TraceRequest]] = {}
    for request in trace.requests:
        sessions.setdefault(request.blocks[0], []).append(request)
    longest = max(sessions.values(), key=len)
    assert len(longest) > 2
    for before, after in pairwise(longest):
        assert after.prompt_tokens > before.prompt_tokens + before.output_tokens - 1
        assert after.blocks[: len(before.blocks)] == before.blocks


@pytest.mark.parametrize("prompt", [100, 20_000, 50_000])
def test_agents_call_as_often_however_long_their_prompts_grow(prompt: int) -> None:
    kind = Agents(count=60, calls=10.0, think_s=4.0, rest_s=120.0)
    mix = Mix(Lengths(prompt, 0.5), Lengths(200))

    trace = agents("made", kind, span_s=4000.0, mix=mix, seed=1)

    # A rest and nine pauses for ten calls.
    assert trace.rate_rps == pytest.approx(60 * 10.0 / (120.0 + 9 * 4.0), rel=0.05)
    assert max(r.prompt_tokens for r in trace.requests) <= kind.most_tokens


def test_an_agents_calls_share_no_more_than_the_earlier_one_computed() -> None:
    mix = Mix(Lengths(600), Lengths(10))
    trace = agents("made", Agents(count=1, calls=50.0), span_s=400.0, mix=mix, seed=2)

    for before, after in pairwise(trace.requests):
        shared = len(set(before.blocks) & set(after.blocks))
        assert shared * trace.block_tokens <= before.prompt_tokens


def test_one_seed_gives_one_trace() -> None:
    assert steady(5.0, 60.0, seed=4) == steady(5.0, 60.0, seed=4)
    assert steady(5.0, 60.0, seed=4) != steady(5.0, 60.0, seed=5)


@pytest.mark.parametrize(("factor", "expected"), [(4.0, 4000), (0.5, 500), (2.5, 2500)])
def test_scaled_load_is_made_of_copies_that_share_no_blocks(factor: float, expected: int) -> None:
    trace = Trace("t", tuple(TraceRequest(float(i), 600, 5, (0, i)) for i in range(1000)))

    more = scaled(trace, factor)

    assert len(more.requests) == pytest.approx(expected, rel=0.1)
    assert more.requests[-1].at_s <= trace.span_s
    assert [r.at_s for r in more.requests] == sorted(r.at_s for r in more.requests)
    assert len({r.blocks for r in more.requests}) == len(more.requests)


def test_derived_traces_change_what_they_say_and_nothing_else() -> None:
    trace = of((0.0, 100, 10), (10.0, 200, 20), (20.0, 300, 30))

    assert [r.at_s for r in sped_up(trace, 2.0).requests] == [0.0, 5.0, 10.0]
    assert [r.at_s for r in window(trace, 5.0, 15.0).requests] == [5.0]
    assert [r.prompt_tokens for r in lengthened(trace, prompts=2.0).requests] == [200, 400, 600]
    assert [r.output_tokens for r in lengthened(trace, outputs=0.5).requests] == [5, 10, 15]
    assert len(joined("both", [trace, trace]).requests) == 6
    moved = spread(trace, 3.0, seed=1)
    assert all(
        0.0 <= after.at_s - before.at_s <= 3.0
        for before, after in zip(trace.requests, moved.requests, strict=True)
    )
    with pytest.raises(ValueError, match="rate scale must be greater than 0"):
        sped_up(trace, 0.0)


def test_a_resampled_trace_is_like_its_own_and_no_two_are_equal():
    random = Random(5)
    trace = Trace(
        "wave",
        in_order(
            TraceRequest(at_s, 100, 10, (number,))
            for number in range(4000)
            # Twice as many in the second half.
            if (at_s := random.uniform(0.0, 1000.0)) > 500.0 or random.random() < 0.5
        ),
    )

    found = [resampled(trace, seed=seed) for seed in range(4)]

    assert resampled(trace, seed=1) == found[1]
    assert len({each.requests for each in found}) == 4
    for each in found:
        assert all(a.at_s <= b.at_s for a, b in pairwise(each.requests))
        assert each.span_s == pytest.approx(trace.span_s, rel=0.01)
        assert len(each.requests) == pytest.approx(len(trace.requests), rel=0.1)
        late = sum(request.at_s > 550.0 for request in each.requests)
        assert late == pytest.approx(sum(r.at_s > 550.0 for r in trace.requests), rel=0.15)
        # What stands there twice does not find itself in a cache.
        blocks = [request.blocks for request in each.requests]
        assert len(set(blocks)) == len(blocks)


def test_one_moment_cannot_be_resampled():
    trace = Trace("one", (TraceRequest(0.0, 10, 1),))

    assert resampled(trace, seed=1) == trace
