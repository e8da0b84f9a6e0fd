"""The findings of a tick: its numbers for people, and the budget that is in force."""

from dataclasses import replace

import pytest

from tandem_operator.core.explain.tick_result import rounded
from tandem_operator.core.quota.share import Share
from tests.unit.core.test_decision_report import view


@pytest.mark.parametrize(
    ("value", "digits", "shown"),
    [(0.0, 3, 0.0), (1234.5, 3, 1230.0), (0.012345, 2, 0.012), (-98.76, 2, -99.0)],
)
def test_a_number_for_people_has_so_many_digits(value: float, digits: int, shown: float) -> None:
    assert rounded(value, digits) == pytest.approx(shown)


def test_only_a_share_that_binds_is_the_budget_in_force() -> None:
    share = Share(gpus=4, surge_gpus=4, binds=True, words="the quota", claim=None)

    assert view(share=share).bound_by_quota
    assert not view(share=replace(share, binds=False)).bound_by_quota
    assert not view().bound_by_quota
