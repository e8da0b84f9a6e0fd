"""Sharing GPUs: never too many, minimums first, priority first, stable, whatever the pools."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tandem_operator.core.quota.allocate import Claim, allocate
from tandem_operator.core.quota.demand_curve import Curve, CurvePoint
from tandem_operator.core.role import Role

QUICK = settings(max_examples=200, deadline=None)

budgets = st.integers(0, 60)


@st.composite
def curves(draw: st.DrawFn, least: int, *, unit: int | None = None) -> Curve:
    """Draw a curve that rises; with `unit`, one that is concave and takes GPUs in equal steps."""
    steps = draw(st.lists(st.tuples(st.integers(1, 8), st.floats(0.0, 30.0)), max_size=6))
    if unit is not None:
        steps = [(unit, gain) for _, gain in sorted(steps, key=lambda step: -step[1])]
    gpus, goodput = least, draw(st.floats(0.0, 20.0))
    points = [CurvePoint(gpus, dict.fromkeys(Role, 1), goodput)]
    for more, gain in steps:
        gpus, goodput = gpus + more, goodput + gain
        points.append(CurvePoint(gpus, dict.fromkeys(Role, 1), goodput))
    return tuple(points)


@st.composite
def claim_sets(
    draw: st.DrawFn, *, unit: int | None = None, settled: bool = False
) -> tuple[Claim, ...]:
    claims = []
    for name in draw(st.permutations(["a", "b", "c", "d"]))[: draw(st.integers(1, 4))]:
        least = 2 * unit if unit else draw(st.integers(1, 8))
        asked = least if settled else draw(st.sampled_from([0, least, least + 2, least + 5]))
        claims.append(
            Claim(
                pool=name,
                priority=draw(st.sampled_from([0, 0, 5, 10])),
                least=least,
                curve=draw(curves(least, unit=unit)),
                asked=asked,
                held=asked + draw(st.integers(0, 3)),
                granted=draw(st.integers(0, 8)),
            )
        )
    return tuple(claims)


def highest(claims: tuple[Claim, ...]) -> list[str]:
    top = max(claim.priority for claim in claims)
    return [claim.pool for claim in claims if claim.priority == top]


def usable(claim: Claim, gpus: int) -> int:
    """Return the GPUs of the best pair that fits."""
    return max((point.gpus for point in claim.curve if point.gpus <= gpus), default=0)


@QUICK
@given(claim_sets(), budgets)
def test_shares_are_never_more_than_there_is(claims: tuple[Claim, ...], gpus: int) -> None:
    shares = allocate(claims, gpus=gpus)

    assert set(shares) == {claim.pool for claim in claims}
    assert sum(shares.values()) <= gpus
    assert min(shares.values()) >= 0


@QUICK
@given(claim_sets(), budgets)
def test_all_minimums_come_first_where_they_fit(claims: tuple[Claim, ...], gpus: int) -> None:
    shares = allocate(claims, gpus=gpus)

    if sum(claim.least for claim in claims) <= gpus:
        assert all(shares[claim.pool] >= claim.least for claim in claims)
    else:
        # No pool gets more than its minimum while another lacks it, but for GPUs that fit no other.
        lacking = [c.least for c in claims if shares[c.pool] < c.least and c.asked == 0]
        left = gpus - sum(min(shares[c.pool], c.least) for c in claims)
        assert all(least > left for least in lacking)


@QUICK
@given(claim_sets(), budgets)
def test_no_pool_gets_more_than_it_wants_or_has(claims: tuple[Claim, ...], gpus: int) -> None:
    shares = allocate(claims, gpus=gpus)

    for claim in claims:
        assert shares[claim.pool] <= max(claim.least, claim.asked, claim.curve[-1].gpus)


@QUICK
@given(claim_sets(), budgets, st.randoms(use_true_random=False))
def test_the_order_of_pools_does_not_matter_and_the_answer_is_always_the_same(
    claims: tuple[Claim, ...], gpus: int, random: object
) -> None:
    shuffled = list(claims)
    random.shuffle(shuffled)  # type: ignore[attr-defined]

    assert allocate(claims, gpus=gpus) == allocate(shuffled, gpus=gpus)


@QUICK
@given(claim_sets(), budgets)
def test_lower_priorities_take_nothing_from_higher_ones(
    claims: tuple[Claim, ...], gpus: int
) -> None:
    top = highest(claims)
    others_idle = [
        c if c.pool in top else replace(c, curve=(), asked=min(c.asked, c.least)) for c in claims
    ]

    shares, undisturbed = allocate(claims, gpus=gpus), allocate(others_idle, gpus=gpus)

    for claim in claims:
        if claim.pool in top:
            # GPUs that a pool cannot use, or wants no more, may go to another that wants them.
            assert usable(claim, shares[claim.pool]) >= usable(claim, undisturbed[claim.pool])


@QUICK
@given(claim_sets(settled=True), budgets, st.integers(1, 12))
def test_more_gpus_never_mean_less_for_the_one_pool_of_highest_priority(
    claims: tuple[Claim, ...], gpus: int, more: int
) -> None:
    first = replace(claims[0], priority=100)
    claims = (first, *claims[1:])

    assert allocate(claims, gpus=gpus + more)[first.pool] >= allocate(claims, gpus=gpus)[first.pool]


@QUICK
@given(st.sampled_from([1, 4]).flatmap(lambda u: claim_sets(unit=u, settled=True)), budgets)
def test_more_gpus_never_mean_less_for_anyone_of_the_highest_priority_with_equal_steps(
    claims: tuple[Claim, ...], gpus: int
) -> None:
    few, many = allocate(claims, gpus=gpus), allocate(claims, gpus=gpus + 1)

    assert all(many[pool] >= few[pool] for pool in highest(claims))


@QUICK
@given(claim_sets(settled=True), budgets)
def test_no_gpu_is_left_over_while_a_step_fits(claims: tuple[Claim, ...], gpus: int) -> None:
    shares = allocate(claims, gpus=gpus)

    left = gpus - sum(shares.values())
    for claim in claims:
        if shares[claim.pool] >= claim.least:
            fits = [p for p in claim.curve if 0 < p.gpus - shares[claim.pool] <= left]
            assert not fits


@QUICK
@given(claim_sets(settled=True), budgets)
def test_a_pool_keeps_its_share_as_long_as_nothing_changes(
    claims: tuple[Claim, ...], gpus: int
) -> None:
    shares = allocate(claims, gpus=gpus)

    having = tuple(
        replace(c, asked=shares[c.pool], held=shares[c.pool], granted=shares[c.pool])
        for c in claims
        if shares[c.pool] >= c.least
    )
    again = allocate(having, gpus=sum(shares[c.pool] for c in having))

    assert again == {c.pool: shares[c.pool] for c in having}
