"""Sizes follow the work, its burstiness, the SLO and the KV cache; a mean-rate rule would not."""

from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pytest

from benchmarks.other_routers import tuning_for
from tandem_operator.core.forecast.distribution import Forecast, Level
from tandem_operator.core.learn.correction import Correction
from tandem_operator.core.learn.engine_models import EngineModels
from tandem_operator.core.learn.output_lengths import Outputs
from tandem_operator.core.observation import Latency, Quantiles, StartUp
from tandem_operator.core.observe.arrivals import Arrivals, PromptGroup, Second
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.arrival_sample import Workload, workload
from tandem_operator.core.sizing.decode_lateness import DecodeWork, Limit, decode_work
from tandem_operator.core.sizing.demand import Backlog, Situation, assess, learn_overhead
from tandem_operator.core.sizing.prefill_lateness import Replay, prefill_work
from tandem_operator.core.sizing.replica_counts import Choice, RoleDemand, alone, choose
from tandem_operator.core.slo import Slo
from tandem_operator.core.spec import PoolSpec
from tests.unit.core.scene import NOW_S, make_spec

SLO = Slo(ttft_s=1.0, ttft_s_per_thousand_prompt_tokens=0.0, tpot_s=0.03, attainment=0.95)


def arrivals(times_s: list[float], *, tokens: float = 1000.0, span_s: int = 180) -> Arrivals:
    counts = [0.0] * span_s
    for at in times_s:
        counts[int(at)] += 1
    first = int(NOW_S) - span_s
    seconds = {
        first + i: Second((PromptGroup(int(count), tokens),))
        for i, count in enumerate(counts)
        if count
    }
    return Arrivals(int(NOW_S), tuple(counts), seconds, complete=True)


def poisson(rate_rps: float, *, seed: int = 1, clump: int = 1) -> list[float]:
    random, at, times = Random(seed), 0.0, []
    while True:
        at += random.expovariate(rate_rps / clump)
        if at >= 180.0:
            return times
        times.extend([at] * clump)


def sampled(times_s: list[float], **more: float) -> Workload:
    found = workload(arrivals(times_s, **more))  # type: ignore[arg-type]
    assert found is not None
    return found


def replay(
    sample: Workload, *, service_s: float, slo: Slo = SLO, overhead_s: float = 0.0
) -> Replay:
    work = prefill_work(
        sample, service=(service_s, 0.0, 0.0), slowdown=1.0, overhead_s=overhead_s, slo=slo
    )
    return Replay(work)


def decode(
    *, tpot_s: float = 0.03, kv: float | None = None, outputs: float = 200.0, speed: float = 1.0
) -> DecodeWork:
    return decode_work(
        steps=(0.01 / speed, 0.001 / speed, 0.0),
        slowdown=1.0,
        prompt_tokens=1000.0,
        outputs=Outputs(outputs, 0.3),
        dispersion=1.0,
        tpot_s=tpot_s,
        kv_capacity_tokens=kv,
        max_num_seqs=64,
    )


def chosen(
    rate_rps: float,
    prefill: Replay,
    decoding: DecodeWork | None = None,
    *,
    spec: PoolSpec | None = None,
    fixed: dict[Role, int] | None = None,
) -> Choice:
    decoding = decoding or decode()
    level = Level(30.0, rate_rps, tuple(rate_rps * f for f in (0.85, 0.95, 1.0, 1.05, 1.15)))
    demands = {
        Role.PREFILL: RoleDemand(prefill.late_share, prefill.work.mean_service_s),
        Role.DECODE: RoleDemand(
            decoding.late_share, decoding.outputs.mean_tokens / decoding.tokens_per_s
        ),
    }
    return choose(
        spec or make_spec(high=64),
        Forecast(30.0, (level,)),
        demands,
        fixed=fixed or {},
        late_price=20.0,
    )


def test_lateness_that_weighs_less_buys_fewer_replicas() -> None:
    decoding = decode()
    rates_rps = tuple(30.0 * f for f in (0.8, 0.95, 1.0, 1.05, 1.3))

    def bought(weight: float) -> int:
        busy = decoding.outputs.mean_tokens / decoding.tokens_per_s
        demands = {Role.DECODE: RoleDemand(decoding.late_share, busy, price_weight=weight)}
        forecast = Forecast(30.0, (Level(30.0, 30.0, rates_rps),))
        choice = choose(make_spec(high=64), forecast, demands, fixed={}, late_price=20.0)
        return choice.wanted[Role.DECODE]

    assert bought(0.05) < bought(1.0)


def small_prompts(rate_rps: float) -> Situation:
    start_up = StartUp(prefill=((32.0, 0.02), (1024.0, 0.2)), steps=((1.0, 0.01), (64.0, 0.07)))
    situation = assess(
        make_spec(high=64),
        arrivals(poisson(rate_rps), tokens=100.0),
        models=EngineModels().with_start_up(Role.PREFILL, start_up),
        outputs=Outputs(50.0, 0.3),
        correction=Correction(),
        overhead_s=0.0,
        backlog=Backlog(dict.fromkeys(Role, 0.0), clear_s=60.0),
    )
    assert situation is not None
    return situation


def learned_overhead_s(
    known_s: float, surplus_s: float | None, *, ready: int = 8, settled: bool = True
) -> float:
    """Return the overhead learned from a median TTFT `surplus_s` above that of no queue."""
    situation = small_prompts(30.0)
    alone_s = situation.replay.work.unloaded_ttft_s(0.5)
    p50_s = None if surplus_s is None else alone_s + surplus_s
    return learn_overhead(
        known_s,
        situation,
        Latency(NOW_S, Quantiles(p50_s=p50_s), Quantiles()),
        rate_rps=30.0,
        ready=dict.fromkeys(Role, ready),
        settled=settled,
        slo_ttft_s=1.5,
    )


def test_the_median_ttft_tells_of_overhead_only_while_nothing_queues() -> None:
    assert learned_overhead_s(0.1, 0.2) == pytest.approx(0.12)
    assert learned_overhead_s(0.1, -0.2) == pytest.approx(0.08)
    assert learned_overhead_s(0.1, None) == 0.1
    assert learned_overhead_s(0.1, 0.2, settled=False) == 0.1
    assert learned_overhead_s(0.1, 0.2, ready=0) == 0.1
    assert learned_overhead_s(0.1, 0.2, ready=1) == 0.1


def test_one_look_moves_the_overhead_by_little_and_it_stays_within_half_of_the_target() -> None:
    assert learned_overhead_s(0.1, 60.0) == pytest.approx(0.13)
    assert learned_overhead_s(0.74, 60.0) == pytest.approx(0.75)
    assert learned_overhead_s(0.001, -1.0) == 0.0


def test_room_for_a_jump_is_bought_for_prompts_rather_than_for_streams() -> None:
    spec = make_spec(high=64)
    situation = small_prompts(30.0)
    rates_rps = tuple(30.0 * f for f in (0.8, 0.95, 1.0, 1.05, 1.3))
    forecast = Forecast(30.0, (Level(30.0, 30.0, rates_rps),))

    def wanted(demands: Mapping[Role, RoleDemand]) -> Mapping[Role, int]:
        return choose(spec, forecast, demands, fixed={}, late_price=20.0).wanted

    at_full_price = {r: replace(d, price_weight=1.0) for r, d in situation.demands.items()}
    priced, full = wanted(situation.demands), wanted(at_full_price)

    assert priced[Role.DECODE] < full[Role.DECODE]
    assert priced[Role.PREFILL] == full[Role.PREFILL]


def test_twice_the_service_time_needs_more_prefill() -> None:
    sample = sampled(poisson(6.0))

    quick = chosen(6.0, replay(sample, service_s=0.2)).target[Role.PREFILL]
    slow = chosen(6.0, replay(sample, service_s=0.4)).target[Role.PREFILL]

    assert quick < slow
    assert slow >= 3


@pytest.mark.parametrize(("longer", "cv2"), [(1000.0, 0.0), (3000.0, 0.25)])
def test_prompts_of_two_lengths_vary_the_service_by_their_distance(
    longer: float, cv2: float
) -> None:
    first = int(NOW_S) - 180
    seconds = {
        first + i: Second((PromptGroup(1, longer if i % 2 else 1000.0),)) for i in range(180)
    }
    sample = workload(Arrivals(int(NOW_S), (1.0,) * 180, seconds, complete=True))
    assert sample is not None

    work = prefill_work(sample, service=(0.0, 1e-4, 0.0), slowdown=1.0, overhead_s=0.0, slo=SLO)

    assert work.mean_service_s == pytest.approx(5e-5 * (1000.0 + longer), rel=0.01)
    assert work.service_cv2 == pytest.approx(cv2, abs=0.01)


def test_the_predicted_ttft_grows_with_the_load_and_falls_with_replicas() -> None:
    played = replay(sampled(poisson(6.0)), service_s=0.2)
    rates_rps = (0.0, 2.0, 6.0, 9.0)

    by_rate_s = [played.ttft_quantile_s(rate, 2, 0.95) for rate in rates_rps]
    by_count_s = [played.ttft_quantile_s(9.0, count, 0.95) for count in (2, 3, 8)]

    assert by_rate_s[0] == pytest.approx(played.work.unloaded_ttft_s(0.95))
    assert by_rate_s == sorted(set(by_rate_s))
    assert by_count_s == sorted(set(by_count_s), reverse=True)


def test_bursts_need_more_prefill_than_poisson_arrivals_of_the_same_mean() -> None:
    even, bursty = sampled(poisson(6.0)), sampled(poisson(6.0, clump=16))

    calm = chosen(6.0, replay(even, service_s=0.2)).target[Role.PREFILL]
    clumped = chosen(6.0, replay(bursty, service_s=0.2)).target[Role.PREFILL]

    assert clumped > calm


def test_a_ramp_is_not_replayed_as_a_burst() -> None:
    random, at, ramp = Random(2), 0.0, []
    while at < 179.0:
        at += random.expovariate(2.0 + 8.0 * at / 180.0)
        ramp.append(min(at, 179.9))
    even = sampled(poisson(6.0))

    grown = chosen(6.0, replay(sampled(ramp), service_s=0.2)).target[Role.PREFILL]

    assert grown <= chosen(6.0, replay(even, service_s=0.2)).target[Role.PREFILL] + 1


def test_a_short_prompt_waits_for_a_long_one_beside_idle_servers_that_take_turns() -> None:
    first = int(NOW_S) - 180
    # Every fifth second a prompt that holds its server until after the next two came.
    seconds = {
        first + i: Second((PromptGroup(1, 30_000.0 if i % 5 == 0 else 1000.0),)) for i in range(180)
    }
    sample = workload(Arrivals(int(NOW_S), (1.0,) * 180, seconds, complete=True))
    assert sample is not None

    def late(*, in_turn: bool) -> list[float]:
        work = prefill_work(
            sample,
            service=(0.0, 1e-4, 0.0),
            slowdown=1.0,
            overhead_s=0.0,
            slo=Slo(1.0, 0.0, 0.03, 0.95),
        )
        tuning = tuning_for(in_turn=in_turn, deadline_order=False)
        return [Replay(work, tuning=tuning).late_share(1.0, n) for n in range(1, 6)]

    queue, turns = late(in_turn=False), late(in_turn=True)

    assert turns[0] == queue[0] > 0.3
    assert turns[1] > 0.1
    assert queue[1] == queue[2] == 0.0
    assert turns[-1] == 0.0


def test_waiting_beside_idle_servers_is_bought_off_up_to_the_objective_and_no_further() -> None:
    def count(routed: dict[int, float]) -> int:
        demand = RoleDemand(
            late_share=lambda _, n: routed.get(n, 0.0), busy=1.0, priced_share=lambda _, n: 0.0
        )
        level = Level(30.0, 1.0, (1.0,) * 5)
        roles = dict.fromkeys(Role, demand)
        found = choose(make_spec(), Forecast(30.0, (level,)), roles, fixed={}, late_price=1e6)
        return found.target[Role.PREFILL]

    assert count({1: 0.02, 2: 0.01}) == 1
    assert count({1: 0.2, 2: 0.1, 3: 0.02, 4: 0.01}) == 3


def test_a_role_alone_wants_what_it_wants_beside_one_that_keeps_up() -> None:
    decoding = decode()
    busy = decoding.outputs.mean_tokens / decoding.tokens_per_s
    demands = {
        Role.PREFILL: RoleDemand(lambda rate_rps, n: float(rate_rps > 10.0 * n), 0.1),
        Role.DECODE: RoleDemand(decoding.late_share, busy),
    }
    forecast = Forecast(30.0, (Level(30.0, 30.0, (25.0, 30.0, 35.0)),))
    same = {"late_price": 20.0, "floors": dict.fromkeys(Role, 1)}

    def decodes(high: int, fixed: dict[Role, int]) -> tuple[int, int]:
        spec = make_spec(high=high)
        beside = choose(spec, forecast, demands, fixed=fixed, **same).target[Role.DECODE]
        return alone(spec, Role.DECODE, forecast, demands, fixed=fixed, **same), beside

    alike, beside_many = decodes(64, {})
    unfed, beside_one = decodes(64, {Role.PREFILL: 1})
    assert alike == beside_many == unfed > beside_one
    assert decodes(2, {})[0] == 2
    assert decodes(64, {Role.DECODE: 9})[0] == 9


def test_late_share_falls_with_replicas_and_rises_with_load() -> None:
    played = replay(sampled(poisson(6.0)), service_s=0.3)

    by_count = [played.late_share(6.0, n) for n in range(1, 8)]
    by_rate = [played.late_share(rate, 3) for rate in (2.0, 4.0, 6.0, 8.0, 10.0)]

    assert by_count == sorted(by_count, reverse=True)
    assert by_rate == sorted(by_rate)


def test_a_bound_that_grows_with_the_prompt_needs_less_prefill() -> None:
    sample = sampled(poisson(6.0), tokens=4000.0)
    tight = Slo(0.5, 0.0, 0.03, 0.95)
    loose = Slo(0.5, 0.5, 0.03, 0.95)

    strict = chosen(6.0, replay(sample, service_s=0.4, slo=tight)).target[Role.PREFILL]
    lenient = chosen(6.0, replay(sample, service_s=0.4, slo=loose)).target[Role.PREFILL]

    assert lenient < strict


def test_prompts_that_are_late_alone_are_reported_and_not_chased() -> None:
    played = replay(sampled(poisson(1.0)), service_s=1.5)

    assert not played.work.feasible
    assert played.work.feasible_ttft_s == pytest.approx(1.5)
    assert chosen(1.0, played).target[Role.PREFILL] <= 3


def test_long_prompts_arriving_lately_weigh_like_long_prompts() -> None:
    short = arrivals([t for t in poisson(6.0) if t < 140.0], tokens=100.0)
    long = arrivals([t for t in poisson(6.0) if t >= 140.0], tokens=2000.0)
    counts = tuple(a + b for a, b in zip(short.counts, long.counts, strict=True))
    seconds = dict(short.seconds) | dict(long.seconds)

    sample = workload(Arrivals(int(NOW_S), counts, seconds, complete=True))

    assert sample is not None
    assert sample.mean_prompt_tokens > 1600.0


def test_many_requests_are_replayed_in_chunks_with_about_the_same_answer() -> None:
    exact = replay(sampled(poisson(3.2)), service_s=0.5)
    many = replay(sampled(poisson(32.0)), service_s=0.05)

    assert not exact.work.chunks
    assert many.work.chunks
    assert many.work.load(32.0) == pytest.approx(exact.work.load(3.2), rel=0.05)
    assert many.late_share(32.0, 3) <= 0.02
    assert many.late_share(32.0, 1) > 0.5


def test_kv_that_fills_before_the_batch_is_slow_decides_decode() -> None:
    roomy, tight = decode(kv=1_000_000.0), decode(kv=6_000.0)

    assert roomy.limit is Limit.TPOT
    assert tight.limit is Limit.KV
    assert tight.batch == pytest.approx(0.9 * 6_000 / 1_100)
    few = chosen(2.0, replay(sampled(poisson(2.0)), service_s=0.1), roomy).target[Role.DECODE]
    many = chosen(2.0, replay(sampled(poisson(2.0)), service_s=0.1), tight).target[Role.DECODE]
    assert many > few


def test_a_tighter_tpot_needs_more_decode_and_no_more_prefill() -> None:
    played = replay(sampled(poisson(4.0)), service_s=0.1)

    loose, tight = chosen(4.0, played, decode()), chosen(4.0, played, decode(tpot_s=0.015))

    assert tight.target[Role.DECODE] > loose.target[Role.DECODE]
    assert tight.target[Role.PREFILL] == loose.target[Role.PREFILL]


def test_a_tpot_that_one_stream_cannot_keep_is_reported_with_one_it_can() -> None:
    impossible = decode(tpot_s=0.005)

    assert not impossible.feasible
    assert impossible.feasible_tpot_s > 0.011
    assert (
        chosen(2.0, replay(sampled(poisson(2.0)), service_s=0.1), impossible).target[Role.DECODE]
        <= chosen(2.0, replay(sampled(poisson(2.0)), service_s=0.1), decode(tpot_s=0.0125)).target[
            Role.DECODE
        ]
    )


def test_a_budget_too_small_for_both_is_split_for_goodput_and_never_starves_a_role() -> None:
    played = replay(sampled(poisson(6.0)), service_s=0.5)
    free = chosen(6.0, played)
    budget = sum(free.target.values()) - 2

    split = chosen(6.0, played, spec=make_spec(high=64, gpu_budget=budget))

    assert sum(split.target.values()) <= budget
    assert min(split.target.values()) >= 1
    assert any("gpuBudget" in hit for hit in split.limits_hit.values())


def test_decode_is_not_bought_for_requests_that_prefill_cannot_deliver() -> None:
    played = replay(sampled(poisson(10.0)), service_s=0.5)

    free = chosen(10.0, played).target[Role.DECODE]
    starved = chosen(10.0, played, fixed={Role.PREFILL: 1}).target[Role.DECODE]

    assert starved < free


def test_chunks_of_many_requests_are_no_bursts_of_their_own() -> None:
    # 40 requests/s of 60 ms on four servers: three fifths of what they can do, hardly a wait.
    busy = replay(sampled(poisson(40.0)), service_s=0.06)

    assert busy.work.chunks
    assert busy.late_share(40.0, 4) == pytest.approx(0.0, abs=0.002)


def test_decode_follows_its_load_the_slower_the_more_of_a_step_its_streams_take() -> None:
    work = decode(tpot_s=0.03)
    step_s = 0.95 * 0.03

    assert work.settle_s == pytest.approx(200.0 * step_s**2 / 0.01)
    assert decode(tpot_s=0.012).settle_s < work.settle_s


def test_a_batch_follows_its_load_alike_whether_room_or_speed_limits_it() -> None:
    room, speed = decode(kv=14_700.0), decode(tpot_s=0.022 / 0.95)

    assert (room.limit, speed.limit) == (Limit.KV, Limit.TPOT)
    assert room.batch == pytest.approx(speed.batch, rel=0.01)
    assert room.settle_s == pytest.approx(speed.settle_s, rel=0.01)
