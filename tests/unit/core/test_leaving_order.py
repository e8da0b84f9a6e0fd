"""What the end of a pod costs: its requests, and the work that its cache saved."""

from hypothesis import given
from hypothesis import strategies as st

from tandem_operator.core.guard.leaving_order import (
    cache_worth_tokens,
    computed_tokens_each,
    leaving_cost,
)
from tandem_operator.core.observation import Leg
from tandem_operator.core.role import Role
from tests.unit.workloads.cluster import report

COUNTS = st.integers(0, 10**6)


def leg(*, requests: int, prompt: int, cached: int) -> Leg:
    return Leg("p", Role.PREFILL, 1.0, requests, prompt, cached, 0.0, 0)


@given(requests=COUNTS, each=st.floats(0.0, 1e9))
def test_without_a_saving_cache_a_pod_costs_its_requests(requests: int, each: float) -> None:
    assert leaving_cost(requests, tokens_each=each) == requests
    assert leaving_cost(float(requests), worth_tokens=0, tokens_each=each) == requests


@given(requests=COUNTS, worth=COUNTS, more=COUNTS, each=st.floats(0.0, 1e9))
def test_more_load_and_more_worth_never_make_a_pod_cheaper(
    requests: int, worth: int, more: int, each: float
) -> None:
    cost = leaving_cost(requests, worth_tokens=worth, tokens_each=each)

    assert leaving_cost(requests + more, worth_tokens=worth, tokens_each=each) >= cost
    assert leaving_cost(requests, worth_tokens=worth + more, tokens_each=each) >= cost


def test_a_saved_prompt_counts_as_much_as_a_waiting_one() -> None:
    each = computed_tokens_each(
        [leg(requests=10, prompt=9000, cached=5000), leg(requests=2, prompt=2000, cached=0)]
    )

    assert each == 500
    assert leaving_cost(2, worth_tokens=1500, tokens_each=each) == leaving_cost(5)
    assert computed_tokens_each([]) == 0.0


def test_what_several_routers_found_in_a_cache_adds_up() -> None:
    routers = [
        report(cache_worth_tokens={"a": 5, "b": 1}),
        report(),
        report(cache_worth_tokens={"a": 2}),
    ]

    assert cache_worth_tokens(routers) == {"a": 7, "b": 1}
