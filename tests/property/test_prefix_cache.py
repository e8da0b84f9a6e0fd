"""What caches serve of prompts of a length is found, however many of them come and when."""

from hypothesis import given
from hypothesis import strategies as st

from tandem_operator.core.observation import ArrivalSecond
from tandem_operator.core.observe.arrivals import merge
from tandem_operator.core.observe.prefix_cache import cached_shares
from tests.unit.core.scene import NOW_S, report

WINDOW_S = 180
SHORT, LONG = 400, 8000

hit_shares = st.floats(0.0, 0.9)
counts = st.lists(st.integers(0, 6), min_size=WINDOW_S, max_size=WINDOW_S)


def found(rows: list[ArrivalSecond], **more: int) -> dict[int, float]:
    arrivals = merge([report(arrivals=rows, **more)], expected=1)
    return dict(cached_shares(arrivals, first_s=arrivals.end_s - WINDOW_S))


@given(hit_shares, hit_shares, counts, counts)
def test_steady_hits_of_a_length_are_found_in_any_mix(
    short_hits: float, long_hits: float, shorts: list[int], longs: list[int]
) -> None:
    rows = []
    for at, (short, long) in enumerate(zip(shorts, longs, strict=True)):
        tokens = (0, short * SHORT, 0, long * LONG)
        cached = (0, round(short_hits * tokens[1]), 0, round(long_hits * tokens[3]))
        second = int(NOW_S) - WINDOW_S + at
        rows.append(ArrivalSecond(second, (0, short, 0, long), tokens, sum(cached), cached))

    shares = found(rows)

    for bucket, hits, requests in ((1, short_hits, sum(shorts)), (3, long_hits, sum(longs))):
        if requests and max(short_hits, long_hits) > 0.01:
            assert abs(shares.get(bucket, 0.0) - hits) <= 0.02 + 2.0 / (requests + 2.0)


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 10**5), st.integers(0, 10**7)), max_size=60
    ),
    st.booleans(),
    st.integers(0, 10**7),
)
def test_shares_stay_between_nothing_and_nearly_all_whatever_routers_tell(
    told: list[tuple[int, int, int]], by_length: bool, queued: int
) -> None:
    rows = [
        ArrivalSecond(
            int(NOW_S) - 1 - at,
            (count, count),
            (tokens, 3 * tokens),
            cached,
            (cached, cached // 2) if by_length else (),
        )
        for at, (count, tokens, cached) in enumerate(told)
    ]

    shares = found(rows, queued_prompt_tokens=queued)

    assert all(0.0 <= share <= 0.95 for share in shares.values())
    assert set(shares) in (set(), {0, 1})
