"""One decode engine: step times, admission, preemption, and books that do not depend on looks."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem_operator.sim.engines.decode_pod import DecodePod
from tandem_operator.sim.engines.profile import EngineProfile
from tandem_operator.sim.flight import SimulatedFlight
from tandem_operator.sim.traces.trace import TraceRequest
from tests.unit.sim.setups import ENGINE, small_kv


def flight(number: int, prompt: int, output: int, *, at_s: float = 0.0) -> SimulatedFlight:
    return SimulatedFlight(TraceRequest(at_s, prompt, output), number=number, deadline_s=at_s + 1.0)


def test_a_lone_request_gets_one_token_per_step_at_the_profiles_speed() -> None:
    pod = DecodePod(ENGINE)
    lone = flight(0, 1000, 3)

    pod.join(lone, 2.0)
    pod.advance(10.0)

    steps = [ENGINE.step_s(1, 1000 + made) for made in range(3)]
    assert lone.first_s == pytest.approx(2.0 + steps[0])
    assert lone.end_s == pytest.approx(2.0 + sum(steps))
    assert pod.itl_sum_s == pytest.approx(sum(steps[1:]))
    assert pod.itl_count == 2


def test_a_stream_that_joins_in_the_middle_of_a_step_starts_with_the_next() -> None:
    pod = DecodePod(ENGINE)
    first, second = flight(0, 1000, 50), flight(1, 1000, 50)
    pod.join(first, 0.0)
    pod.advance(0.001)

    pod.join(second, 0.001)
    pod.advance(60.0)

    begun = ENGINE.step_s(1, 1000)
    assert second.first_s == pytest.approx(begun + ENGINE.step_s(2, 2001))


def test_a_full_cache_admits_no_stream_until_one_ends() -> None:
    pod = DecodePod(small_kv(1_000))
    first, second = flight(0, 600, 20), flight(1, 600, 20)
    pod.join(first, 0.0)
    pod.join(second, 0.0)

    pod.advance(60.0)

    assert first.end_s is not None
    assert second.first_s is not None
    assert second.first_s > first.end_s
    assert pod.preemptions == 0


def test_a_batch_that_outgrows_the_cache_gives_up_its_latest_and_computes_it_again() -> None:
    pod = DecodePod(small_kv(1_000))
    flights = [flight(number, 300, 300) for number in range(3)]
    for each in flights:
        pod.join(each, 0.0)

    pod.advance(600.0)

    assert pod.preemptions > 0
    assert [each.made for each in flights] == [300] * 3
    assert pod.kv_tokens == 0
    ends = [each.end_s or 0.0 for each in flights]
    assert ends == sorted(ends)


def test_the_batch_limit_holds() -> None:
    pod = DecodePod(replace(ENGINE, max_num_seqs=2))
    for number in range(3):
        pod.join(flight(number, 10, 1000), 0.0)

    pod.advance(0.5)

    assert pod.running == 2
    assert pod.waiting(0.5) == 1


def test_a_pod_that_computes_the_prompt_itself_yields_the_first_token_with_the_last_chunk() -> None:
    pod = DecodePod(ENGINE)
    whole = flight(0, 10_000, 2)
    whole.compute_tokens = 10_000

    pod.join(whole, 0.0)
    pod.advance(60.0)

    # Two chunks, and each is a pass of its own.
    assert whole.first_s == pytest.approx(ENGINE.service_s(10_000))
    assert whole.end_s == pytest.approx(whole.first_s + ENGINE.step_s(1, 10_001))


jobs = st.lists(
    st.tuples(st.floats(0.0, 5.0), st.integers(1, 400), st.integers(1, 200), st.booleans()),
    min_size=1,
    max_size=12,
)


def run(profile: EngineProfile, work: list[tuple[float, int, int, bool]], looks: list[float]):
    pod = DecodePod(profile)
    flights = []
    entering = sorted(work)
    moments = sorted([*looks, *(ready_s for ready_s, *_ in entering), 10_000.0])
    for moment in moments:
        pod.advance(moment)
        assert pod.kv_tokens <= profile.kv_capacity_tokens
        while entering and entering[0][0] <= moment:
            ready_s, prompt, output, whole = entering.pop(0)
            each = flight(len(flights), prompt, output, at_s=ready_s)
            each.compute_tokens = prompt if whole else 0
            flights.append(each)
            pod.join(each, ready_s)
    pod.advance(20_000.0)
    return pod, flights


@settings(max_examples=60, deadline=None)
@given(work=jobs, capacity=st.integers(600, 3000), looks=st.lists(st.floats(0.0, 30.0), max_size=8))
def test_every_request_gets_all_its_tokens_and_looking_changes_nothing(
    work: list[tuple[float, int, int, bool]], capacity: int, looks: list[float]
) -> None:
    profile = small_kv(capacity)

    pod, flights = run(profile, work, [])
    watched, same = run(profile, work, looks)

    assert [each.made for each in flights] == [each.request.output_tokens for each in flights]
    assert pod.tokens_made == sum(each.request.output_tokens for each in flights)
    assert pod.kv_tokens == 0
    assert pod.requests == 0
    assert len(pod.ended) == len(work)
    assert [each.end_s for each in flights] == [each.end_s for each in same]
    assert [each.first_s for each in flights] == [each.first_s for each in same]
    assert watched.itl_count == pod.itl_count
