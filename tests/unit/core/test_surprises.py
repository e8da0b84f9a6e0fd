"""A surprise is load that the forecast missed, unless it has learned that load since."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tandem_operator.core.objective.surprises import is_ruinous, surprises_of
from tandem_operator.core.objective.what_if import BucketPart, Late, PlayedFleet
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
    """Return a history whose forecast sees each rate of a time a start-up before it comes."""
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


CALM, BURST = 0, 4
"""Steps of rates that differ by a fifth: the history calls them alike, but one is too much."""
ONE_EACH = dict.fromkeys(Role, 1)


def felt(*buckets: int, of: int = 30) -> tuple[BucketPart, ...]:
    """Return a calm with a burst in each of these buckets."""
    steps = [BURST if at in buckets else CALM for at in range(of)]
    return tuple(
        BucketPart(at, 1.0, dict.fromkeys(Role, step), step) for at, step in enumerate(steps)
    )


def late(share: float = 0.5) -> dict[Role, Late]:
    """Return a law: so much of a burst is late on one replica, and nothing else."""
    return {
        role: Late(lambda rate, n: share if rate > 1.1 and n == 1 else 0.0, busy=1.0)
        for role in Role
    }


def ready(
    prefill: Sequence[int] = (1,) * 30, decode: Sequence[int] = (1,) * 30
) -> dict[Role, PlayedFleet]:
    return {Role.PREFILL: PlayedFleet(prefill, prefill), Role.DECODE: PlayedFleet(decode, decode)}


def times(
    *buckets: int,
    share: float = 0.5,
    fleets: dict[Role, PlayedFleet] | None = None,
    least: dict[Role, int] | None = None,
) -> int:
    return surprises_of(
        felt(*buckets),
        late=late(share),
        fleets=fleets or ready(),
        least=least or ONE_EACH,
        whole=False,
    )


def test_bursts_close_together_are_one_surprise() -> None:
    assert times() == 0
    assert times(5, 6, 8) == 1
    assert times(5, 8, 11) == 1
    assert times(5, 9) == 2
    assert times(0, 15, 29) == 3


def test_what_makes_few_late_is_no_surprise() -> None:
    assert times(5, share=0.1) == 0
    assert times(5, share=0.11) == 1


def test_what_the_fleet_was_ready_for_or_is_never_below_is_no_surprise() -> None:
    met = tuple(2 if at == 5 else 1 for at in range(30))

    assert times(5, 15, fleets=ready(met, met)) == 1
    assert times(5, 15, least=dict.fromkeys(Role, 2)) == 0


def test_the_role_that_was_surprised_more_often_counts() -> None:
    met = tuple(2 if at == 5 else 1 for at in range(30))

    assert times(5, 15, fleets=ready(prefill=met)) == 2
    assert times(5, 15, fleets=ready(decode=met)) == 2


@pytest.mark.parametrize(("allowed_late", "ruinous"), [(0.021, False), (0.019, True)])
def test_one_surprise_is_ruinous_if_it_makes_five_times_as_many_late_as_are_allowed(
    allowed_late: float, *, ruinous: bool
) -> None:
    # Half of one bucket is late for each role, and ten have as many requests.
    found = is_ruinous(
        felt(5, of=10), late=late(), fleets=ready(), least=ONE_EACH, allowed_late=allowed_late
    )

    assert found is ruinous


def test_what_no_fleet_misses_is_not_ruinous() -> None:
    least = dict.fromkeys(Role, 2)

    assert not is_ruinous(
        felt(5, of=10), late=late(), fleets=ready(), least=least, allowed_late=0.0
    )
