"""More demand never asks for less, and only the work counts, not the clock it is told in."""

from dataclasses import replace
from math import exp

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.other_routers import tuning_for
from tandem_operator.core.forecast.distribution import Forecast, Level
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.prefill_lateness import Replay
from tandem_operator.core.sizing.replica_counts import choose
from tests.unit.core.scene import make_spec
from tests.unit.core.test_sizing import SLO, chosen, decode, poisson, replay, sampled

services = st.floats(0.02, 0.8)
rates = st.floats(0.2, 12.0)
factors = st.floats(1.05, 3.0)


@given(services, rates, factors, st.integers(0, 3))
def test_more_requests_never_need_fewer_replicas(
    service_s: float, rate: float, factor: float, seed: int
) -> None:
    played = replay(sampled(poisson(4.0, seed=seed)), service_s=service_s)

    few, many = chosen(rate, played), chosen(rate * factor, played)

    assert many.target[Role.PREFILL] >= few.target[Role.PREFILL]
    assert many.target[Role.DECODE] >= few.target[Role.DECODE]


@given(services, st.lists(rates, min_size=2, max_size=8), st.integers(1, 4), st.booleans())
def test_what_was_asked_before_changes_no_late_share(
    service_s: float, asked: list[float], replicas: int, in_turn: bool
) -> None:
    work = replay(sampled(poisson(4.0)), service_s=service_s).work
    tuning = tuning_for(in_turn=in_turn, deadline_order=False)
    remembers = Replay(work, tuning=tuning)

    together = [remembers.late_share(rate, replicas) for rate in asked]

    assert together == [Replay(work, tuning=tuning).late_share(r, replicas) for r in asked]


@given(st.floats(0.02, 0.26), factors, rates)
def test_longer_service_never_needs_less_prefill(
    service_s: float, factor: float, rate: float
) -> None:
    # Always well below the bound: requests that become impossible are no longer sized for.
    sample = sampled(poisson(4.0))

    quick = chosen(rate, replay(sample, service_s=service_s)).target[Role.PREFILL]
    slow = chosen(rate, replay(sample, service_s=service_s * factor)).target[Role.PREFILL]

    assert slow >= quick


@given(rates, st.floats(0.013, 0.06), factors)
def test_a_looser_tpot_never_needs_more_decode(rate: float, tpot_s: float, factor: float) -> None:
    played = replay(sampled(poisson(4.0)), service_s=0.05)

    tight = chosen(rate, played, decode(tpot_s=tpot_s)).target[Role.DECODE]
    loose = chosen(rate, played, decode(tpot_s=tpot_s * factor)).target[Role.DECODE]

    assert loose <= tight


@given(services, rates, st.integers(2, 12))
def test_a_chosen_pair_fits_the_budget_and_starves_no_role(
    service_s: float, rate: float, budget: int
) -> None:
    played = replay(sampled(poisson(4.0)), service_s=service_s)

    pair = chosen(rate, played, spec=make_spec(high=64, gpu_budget=budget)).target

    assert sum(pair.values()) <= budget
    assert min(pair.values()) >= 1


@given(services, rates, st.floats(1.0, 500.0), factors)
def test_a_dearer_lateness_never_buys_fewer_replicas(
    service_s: float, rate: float, price: float, factor: float
) -> None:
    played, decoding = replay(sampled(poisson(4.0)), service_s=service_s), decode()
    level = Level(30.0, rate, (rate * 0.8, rate, rate * 1.2))

    def total(late_price: float) -> int:
        from tandem_operator.core.sizing.replica_counts import RoleDemand

        demands = {
            Role.PREFILL: RoleDemand(played.late_share, played.work.mean_service_s),
            Role.DECODE: RoleDemand(
                decoding.late_share, decoding.outputs.mean_tokens / decoding.tokens_per_s
            ),
        }
        choice = choose(
            make_spec(high=64),
            Forecast(30.0, (level,)),
            demands,
            fixed={},
            late_price=late_price,
        )
        return sum(choice.target.values())

    assert total(price * factor) >= total(price)


@given(services, rates, st.integers(1, 40), st.integers(0, 3))
def test_the_same_work_in_less_time_needs_the_same_fleet(
    service_s: float, rate: float, quicker: int, seed: int
) -> None:
    # Late shares are found on a grid of rates with twenty steps to each factor of e.
    factor = exp(quicker / 20.0)
    sample = sampled(poisson(4.0, seed=seed))
    quick_slo = replace(SLO, ttft_s=SLO.ttft_s / factor)

    plain = chosen(rate, replay(sample, service_s=service_s))
    quick = chosen(
        rate * factor,
        replay(sample, service_s=service_s / factor, slo=quick_slo),
        decode(speed=factor, tpot_s=0.03 / factor),
    )

    assert quick.wanted == plain.wanted


@given(services, rates, st.integers(2, 5), st.integers(0, 3))
def test_a_larger_pool_needs_no_more_per_request(
    service_s: float, rate: float, factor: int, seed: int
) -> None:
    played = replay(sampled(poisson(4.0, seed=seed)), service_s=service_s)

    few = chosen(rate, played, spec=make_spec(high=200)).wanted
    many = chosen(rate * factor, played, spec=make_spec(high=200)).wanted

    # One more at most: rates of the replay lie on a grid of five percent.
    assert all(many[role] <= factor * few[role] + 1 for role in Role)
