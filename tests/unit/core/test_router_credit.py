"""Requests that the router saves in an overload need no replica; those that it cannot save do."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem_operator.core.learn.output_lengths import Outputs
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.decode_lateness import DecodeWork, decode_work
from tandem_operator.core.sizing.prefill_lateness import Job, PrefillWork, Replay, chunk_of
from tandem_operator.core.sizing.replica_counts import RoleDemand
from tandem_operator.core.sizing.router_credit import (
    PrefillExcess,
    decode_excess,
    lent,
)

SERVICE_S = 0.1
REQUESTS = 2000


def even_work(*, chunked: bool = False, spare_s: float = 0.4) -> PrefillWork:
    """Return requests at even distances in operational time; `at` counts mean distances."""
    jobs = tuple(Job(float(i), SERVICE_S, spare_s) for i in range(REQUESTS))
    per_chunk = 20
    chunks = tuple(
        chunk_of(at=float(i), work_s=SERVICE_S * per_chunk, spares=[(spare_s, 1)] * per_chunk)
        for i in range(0, REQUESTS, per_chunk)
    )
    return PrefillWork(
        singles=jobs,
        chunks=chunks if chunked else (),
        counted=REQUESTS,
        singles_counted=REQUESTS,
        mean_service_s=SERVICE_S,
        allowed_late=0.05,
        infeasible_share=0.0,
        unloaded=((SERVICE_S, 0.2, REQUESTS),),
    )


def decoding() -> DecodeWork:
    return decode_work(
        steps=(0.01, 0.001, 0.0),
        slowdown=1.0,
        prompt_tokens=1000.0,
        outputs=Outputs(200.0, 0.3),
        dispersion=1.0,
        tpot_s=0.03,
        kv_capacity_tokens=None,
        max_num_seqs=64,
    )


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(("load", "excess"), [(0.9, 0.0), (1.25, 0.2), (2.0, 0.5)])
def test_an_overload_costs_its_excess_and_no_more(
    chunked: bool, load: float, excess: float
) -> None:
    found = PrefillExcess(even_work(chunked=chunked)).late_share(2 * load / SERVICE_S, 2)

    assert found == pytest.approx(excess, abs=0.03)


def test_first_come_first_served_makes_every_request_late_in_the_same_overload() -> None:
    assert Replay(even_work()).late_share(2 * 1.2 / SERVICE_S, 2) > 0.9


@settings(max_examples=40, deadline=None)
@given(st.floats(1.0, 60.0), st.integers(1, 6))
def test_more_replicas_never_lose_more(rate_rps: float, replicas: int) -> None:
    prefill, work = PrefillExcess(even_work()), decoding()

    assert prefill.late_share(rate_rps, replicas + 1) <= prefill.late_share(rate_rps, replicas)
    assert decode_excess(work, rate_rps, replicas + 1) <= decode_excess(work, rate_rps, replicas)


def test_decode_loses_the_mean_excess_of_a_normal_load() -> None:
    work = decoding()
    capacity_rps = work.tokens_per_s / 200.0

    full = decode_excess(work, 2 * capacity_rps, 2)

    assert decode_excess(work, 0.5 * capacity_rps, 2) < 1e-3
    assert 0.0 < full < 0.5 * work.late_share(2 * capacity_rps, 2)
    assert decode_excess(work, 4 * capacity_rps, 2) == pytest.approx(0.5, abs=0.02)
    assert decode_excess(work, 0.0, 2) == 0.0


def late_below(most_rps: float) -> Callable[[float, int], float]:
    """Return a law: no request is late up to so many per second and replica, all above."""
    return lambda rate_rps, replicas: float(rate_rps > most_rps * replicas)


def test_decode_slack_is_part_of_the_replica_that_a_burst_would_be_worth() -> None:
    demands = {
        Role.PREFILL: RoleDemand(late_below(10.0), busy=0.1),
        Role.DECODE: RoleDemand(late_below(20.0), busy=0.05),
    }

    def priced(decode_replicas: int) -> float:
        share = lent(demands, decode_replicas)[Role.PREFILL].priced_share
        assert share is not None
        return share(25.0, 2)

    # At 25 requests/s decode is busy with 1.25 of its 3 replicas: half of the rest can be used.
    assert priced(3) == 0.0
    # Half of .75 is too little.
    assert priced(2) == 1.0
    # What is expected prefill must bear by itself.
    assert lent(demands, 3)[Role.PREFILL].late_share is demands[Role.PREFILL].late_share
    assert lent(demands, 3)[Role.DECODE] is demands[Role.DECODE]
