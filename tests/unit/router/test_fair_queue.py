"""What goes next where several tenants wait for one kind of pod."""

import pytest

from tandem_routing.class_queue import ClassQueue
from tandem_routing.deadline_queue import Prospect, turn_of
from tandem_routing.rank import FIRST, Rank, RankedShares
from tandem_routing.tenant_shares import AHEAD_REQUESTS, MOST_TENANTS, Tenant, TenantShares
from tests.unit.router.waiter import Waiter, queue_of

BATCH = Rank.of(guaranteed=False, priority=0)
FLOOD, QUIET, HEAVY = Tenant("flood"), Tenant("quiet"), Tenant("heavy", weight=3.0)


def waiter(tenant: Tenant, deadline_s: float, *, rank: Rank = FIRST, tokens: int = 100) -> Waiter:
    return Waiter(tenant.name, deadline_s, rank, tokens=tokens, tenant=tenant)


def serve(queue: ClassQueue[Waiter], *, now: float = 0.0) -> Waiter | None:
    """Let the next one go."""
    turn = queue.next(Prospect(start_s=now, pods=1), now=now).first
    if turn is None:
        return None
    queue.serve(turn)
    queue.remove(turn.waiter)
    return turn.waiter


def tenants_served(queue: ClassQueue[Waiter], count: int) -> list[str]:
    served = (serve(queue) for _ in range(count))
    return [waiter.tenant.name for waiter in served if waiter is not None]


def test_while_all_can_be_on_time_the_most_urgent_goes_whatever_its_tenant_had() -> None:
    queue = queue_of(*(waiter(FLOOD, 10.0 + i) for i in range(3)), waiter(QUIET, 50.0))

    assert tenants_served(queue, 4) == ["flood", "flood", "flood", "quiet"]


def test_while_some_will_be_late_tenants_take_turns() -> None:
    flood = [waiter(FLOOD, 5.0) for _ in range(20)]
    queue = queue_of(*flood, waiter(QUIET, 6.0), waiter(QUIET, 7.0))

    served = tenants_served(queue, 4)

    assert sorted(served) == ["flood", "flood", "quiet", "quiet"]


def test_a_tenant_that_comes_to_a_flood_waits_for_no_more_than_one_request() -> None:
    queue = queue_of(*(waiter(FLOOD, 5.0) for _ in range(50)))
    tenants_served(queue, 10)

    queue.add(waiter(QUIET, 9.0))

    assert "quiet" in tenants_served(queue, 2)


def test_one_that_passes_by_counts_as_one_that_waited() -> None:
    waited, passed = RankedShares(), RankedShares()
    line, nobody = ClassQueue[Waiter](waited), ClassQueue[Waiter](passed)

    for tenant, tokens in ((FLOOD, 500), (FLOOD, 20), (HEAVY, 900), (QUIET, 50), (FLOOD, 70)):
        line.add(waiter(tenant, 50.0, tokens=tokens))
        serve(line)
        nobody.pass_by(turn_of(waiter(tenant, 50.0, tokens=tokens)))

    for tenant in (FLOOD, QUIET, HEAVY):
        served = waited.of(FIRST).served(tenant.name)
        assert passed.of(FIRST).served(tenant.name) == served > 0
    assert passed.of(FIRST).ahead == waited.of(FIRST).ahead
    assert not len(nobody)


def test_time_without_requests_gives_no_credit() -> None:
    queue = queue_of(*(waiter(FLOOD, 50.0) for _ in range(150)))
    tenants_served(queue, 50)

    for _ in range(50):
        queue.add(waiter(QUIET, 50.0))

    assert 9 <= tenants_served(queue, 20).count("quiet") <= 11


def test_a_weight_is_a_multiple_of_the_service() -> None:
    queue = queue_of(
        *(waiter(QUIET, 60.0) for _ in range(100)), *(waiter(HEAVY, 60.0) for _ in range(100))
    )

    assert 29 <= tenants_served(queue, 40).count("heavy") <= 31


def test_tokens_count_and_not_requests() -> None:
    queue = queue_of(
        *(waiter(FLOOD, 60.0, tokens=500) for _ in range(100)),
        *(waiter(QUIET, 60.0, tokens=100) for _ in range(100)),
    )

    assert 9 <= tenants_served(queue, 60).count("flood") <= 11


def test_late_requests_wait_behind_punctual_ones_of_other_tenants_but_not_for_ever() -> None:
    queue = queue_of(waiter(QUIET, 0.5), *(waiter(FLOOD, 900.0) for _ in range(50)))

    served = tenants_served(queue, AHEAD_REQUESTS + 2)

    assert served[0] == "flood"
    assert served.count("quiet") == 1


def test_best_effort_of_several_tenants_takes_turns() -> None:
    queue = queue_of(
        *(waiter(FLOOD, 10.0, rank=BATCH) for _ in range(8)),
        *(waiter(QUIET, 90.0, rank=BATCH) for _ in range(2)),
    )

    assert [waiter.tenant.name for waiter in queue.spare()][:4].count("quiet") == 2


def test_the_tenant_with_the_longest_line_is_shed_first() -> None:
    flood = [waiter(FLOOD, 60.0) for _ in range(5)]
    queue = queue_of(waiter(QUIET, 0.1), *flood, waiter(QUIET, 70.0))

    assert queue.shed(0.0, now=0.0) is None
    assert queue.newest() is flood[-1]


def test_of_one_tenant_the_queue_names_no_newest_to_shed() -> None:
    assert queue_of(waiter(QUIET, 60.0), waiter(QUIET, 70.0)).newest() is None


@pytest.mark.parametrize("rank", [FIRST, BATCH])
def test_what_a_tenant_used_corrects_what_was_expected(rank: Rank) -> None:
    shares = TenantShares()
    shares.came("quiet")
    shares.serve(QUIET, 100, waiting=["quiet"])

    shares.correct(QUIET, 400)

    assert shares.served("quiet") == 500


def test_only_so_many_tenants_are_remembered() -> None:
    shares = TenantShares()
    for number in range(2 * MOST_TENANTS):
        shares.serve(Tenant(str(number)), 1, waiting=[])

    assert len(shares) == MOST_TENANTS


def test_a_forgiven_lead_is_not_given_back_once_more() -> None:
    shares = TenantShares()
    flood, quiet = Tenant("flood"), Tenant("quiet")
    for tenant in (flood, quiet):
        shares.came(tenant.name)
    for _ in range(64):
        shares.serve(flood, 100, waiting=["flood", "quiet"])
    shares.forgive(["flood", "quiet"])

    for _ in range(64):
        shares.correct(flood, -99)

    assert shares.served("flood") == shares.served("quiet")
