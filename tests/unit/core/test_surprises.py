"""What counts as a surprise: what the forecast missed, unless it has learned that load since."""

from collections.abc import Sequence
from dataclasses import replace

from tandem_operator.core.observe.demand_history import BUCKET_S, DemandHistory
from tandem_operator.core.role import Role
from tests.unit.core.bursts import HIGH_RPS, LOW_RPS, Span, covered, lived, lulls_and_bursts
from tests.unit.core.scene import make_spec

LEAD_S = 60.0
# One late request in five is allowed: no burst spends that several times over.
SPEC = make_spec(high=12, attainment=0.8)
CALM_S, BURST_S = 240.0, 100.0
THREE = lulls_and_bursts(3, lull_s=CALM_S, burst_s=BURST_S)
HIGHER: list[Span] = [(LOW_RPS, CALM_S), (2.5 * HIGH_RPS, 40.0), (LOW_RPS, CALM_S)]


def foreseen(spans: Sequence[Span], *, after_s: float, until_s: float) -> DemandHistory:
    """Lived by a forecast that, between two moments, sees each rate a start-up before it comes."""
    history = lived(spans)
    ahead, first, end = int(2 * LEAD_S) // BUCKET_S, int(after_s) // BUCKET_S, int(until_s)
    return replace(
        history,
        wants={
            role: tuple(
                max(wants[at : at + ahead + 1]) if first <= at < end // BUCKET_S else want
                for at, want in enumerate(wants)
            )
            for role, wants in history.wants.items()
        },
    )


def floor(history: DemandHistory) -> int:
    return covered([], spec=SPEC, lead_s=LEAD_S, history=history).floor(Role.PREFILL)


def test_what_a_new_pool_missed_and_foresaw_later_is_no_burst() -> None:
    learned = foreseen(
        [*THREE, *HIGHER], after_s=CALM_S + BURST_S, until_s=3 * (CALM_S + BURST_S) + CALM_S / 2
    )

    assert floor(lived([*THREE, *HIGHER])) > 1
    assert floor(learned) == 1


def test_what_was_missed_again_is_a_burst_that_comes_back() -> None:
    end_s = 2 * (CALM_S + BURST_S)
    history = foreseen([*THREE, (LOW_RPS, CALM_S)], after_s=CALM_S + BURST_S, until_s=end_s)

    assert floor(history) > 1


def test_what_was_met_because_the_fleet_had_not_shrunk_is_not_learned() -> None:
    history = lived([*THREE, *HIGHER])
    kept_until = int(3 * (CALM_S + BURST_S)) // BUCKET_S
    first = int(CALM_S) // BUCKET_S
    kept = {
        role: tuple(
            max(wants[first:kept_until]) if first <= at < kept_until else want
            for at, want in enumerate(wants)
        )
        for role, wants in history.wants.items()
    }

    assert floor(replace(history, wants=kept)) > 1


def test_what_an_older_pool_missed_counts_though_it_foresaw_it_later() -> None:
    calm: Span = (LOW_RPS, 900.0)
    learned = foreseen(
        [calm, *THREE, *HIGHER],
        after_s=900.0 + CALM_S + BURST_S,
        until_s=900.0 + 3 * (CALM_S + BURST_S) + CALM_S / 2,
    )

    assert floor(learned) > 1


def test_one_burst_of_each_role_is_no_burst_that_comes_back() -> None:
    calm: Span = (LOW_RPS, 400.0)
    plain = lived([calm, (HIGH_RPS, 40.0), calm, (2 * HIGH_RPS, 40.0), calm])
    first, second = ({20, 21, 22}, {42, 43, 44})

    def seen(role: Role, missed: set[int]) -> tuple[int, ...]:
        # Enough all the time, but for one burst.
        return tuple(
            1 if bucket in missed or bucket + 3 in missed or bucket - 3 in missed else 12
            for bucket in range(len(plain.wants[role]))
        )

    each = replace(
        plain,
        wants={Role.PREFILL: seen(Role.PREFILL, first), Role.DECODE: seen(Role.DECODE, second)},
    )
    twice = replace(each, wants={**each.wants, Role.PREFILL: seen(Role.PREFILL, first | second)})

    assert floor(each) == 1
    assert floor(twice) > 1
