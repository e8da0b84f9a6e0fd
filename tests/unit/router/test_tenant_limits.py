"""How much a tenant may ask for in a minute."""

from hypothesis import given
from hypothesis import strategies as st

from tandem_routing.tenant_limits import Limited, TenantLimit, TenantLimits
from tandem_routing.tenant_shares import MOST_TENANTS

SIXTY = TenantLimit(requests=60)
THOUSAND = TenantLimit(tokens=1000)


def ask(limits: TenantLimits, limit: TenantLimit, *, tokens: int = 1, now: float = 0.0) -> bool:
    return limits.ask("a", limit, tokens=tokens, now=now) is None


def test_a_minute_of_requests_may_come_at_once_and_no_more() -> None:
    limits = TenantLimits()

    passed = [ask(limits, SIXTY) for _ in range(61)]

    assert passed == [True] * 60 + [False]


def test_requests_pass_again_at_the_rate_of_the_limit() -> None:
    limits = TenantLimits()
    for _ in range(60):
        ask(limits, SIXTY)

    assert [ask(limits, SIXTY, now=second) for second in (0.5, 1.0, 1.5, 2.0)] == [
        False,
        True,
        False,
        True,
    ]


def test_a_request_longer_than_the_limit_passes_alone() -> None:
    limits = TenantLimits()

    assert ask(limits, THOUSAND, tokens=5000)
    assert not ask(limits, THOUSAND, tokens=1, now=200.0)
    assert ask(limits, THOUSAND, tokens=1, now=245.0)


def test_tokens_that_were_not_used_are_given_back() -> None:
    limits = TenantLimits()
    ask(limits, THOUSAND, tokens=1000)

    limits.settle("a", THOUSAND, counted=1000, used=100, since_s=0.0, now=0.0)

    assert ask(limits, THOUSAND, tokens=900)


def test_a_long_answer_is_paid_for_later() -> None:
    limits = TenantLimits()
    ask(limits, THOUSAND, tokens=100)
    limits.settle("a", THOUSAND, counted=100, used=1600, since_s=0.0, now=0.0)

    refusal = limits.ask("a", THOUSAND, tokens=400, now=0.0)

    assert refusal is not None
    assert (refusal.what, refusal.retry_after_s) == (Limited.TOKENS, 60)


def test_no_tenant_pays_for_another() -> None:
    limits = TenantLimits()
    for _ in range(60):
        ask(limits, SIXTY)

    assert limits.ask("b", SIXTY, tokens=1, now=0.0) is None


def test_only_so_many_tenants_are_remembered() -> None:
    limits = TenantLimits()
    for number in range(2 * MOST_TENANTS):
        limits.ask(str(number), SIXTY, tokens=1, now=0.0)

    assert len(limits) == MOST_TENANTS


counts = st.integers(1, 300)


@given(
    st.builds(TenantLimit, st.none() | counts, st.none() | counts),
    st.lists(st.tuples(st.floats(0.0, 30.0), st.integers(1, 400)), max_size=60),
)
def test_a_refused_request_passes_after_the_time_that_it_is_told(
    limit: TenantLimit, asked: list[tuple[float, int]]
) -> None:
    limits, now = TenantLimits(), 0.0
    for after_s, tokens in asked:
        now += after_s
        refusal = limits.ask("a", limit, tokens=tokens, now=now)
        if refusal is not None:
            now += refusal.retry_after_s
            assert limits.ask("a", limit, tokens=tokens, now=now) is None


@given(counts, st.lists(st.floats(0.0, 2.0), max_size=300))
def test_no_more_than_two_limits_pass_in_any_minute(most: int, gaps_s: list[float]) -> None:
    limits, now, passed = TenantLimits(), 0.0, []
    for gap_s in gaps_s:
        now += gap_s
        if limits.ask("a", TenantLimit(requests=most), tokens=1, now=now) is None:
            passed.append(now)
    for begin_s in passed:
        assert sum(begin_s <= at_s < begin_s + 60.0 for at_s in passed) <= 2 * most


def test_a_limit_that_an_edit_adds_begins_at_nothing() -> None:
    limits = TenantLimits()
    for second in range(3600):
        ask(limits, SIXTY, tokens=1000, now=float(second))

    assert ask(limits, TenantLimit(requests=60, tokens=1000), tokens=1000, now=3660.0)


def test_tokens_that_faded_are_not_given_back() -> None:
    limits = TenantLimits()
    for minute in range(10):
        ask(limits, THOUSAND, tokens=1000, now=60.0 * minute)

    passed = 0
    for minute in range(10):
        limits.settle("a", THOUSAND, counted=1000, used=1, since_s=60.0 * minute, now=600.0)
        passed += ask(limits, THOUSAND, tokens=1000, now=600.0)

    assert passed == 1
