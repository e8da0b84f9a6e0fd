from tandem_operator.api import Cost, CostStatus
from tandem_operator.core.decision import Attainment
from tandem_operator.core.observation import Quantiles
from tandem_operator.workloads.status.pool_cost import cost_of

COST = Cost(per_gpu_hour="2.49", currency="EUR")


def recent(goodput_rps=None, output_tokens_per_s=None):
    return Attainment(120.0, None, goodput_rps, output_tokens_per_s, Quantiles(), Quantiles(), {})


def test_gpus_cost_their_price_by_the_hour_and_by_what_they_served():
    found = cost_of(COST, gpus=4, recent=recent(goodput_rps=2.0, output_tokens_per_s=1000.0))

    assert found == CostStatus(
        per_hour="9.96 EUR",
        per_million_tokens="2.77 EUR",
        per_thousand_good_requests="1.38 EUR",
    )


def test_a_pool_that_served_nothing_has_its_price_by_the_hour_alone():
    assert cost_of(COST, gpus=1, recent=recent()) == CostStatus(per_hour="2.49 EUR")
    idle = recent(goodput_rps=0.0, output_tokens_per_s=0.0)
    assert cost_of(COST, gpus=1, recent=idle) == CostStatus(per_hour="2.49 EUR")


def test_small_amounts_keep_three_digits():
    cheap = Cost(per_gpu_hour="0.5")
    found = cost_of(cheap, gpus=1, recent=recent(goodput_rps=20.0, output_tokens_per_s=9000.0))

    assert found.per_hour == "0.5 USD"
    assert found.per_million_tokens == "0.0154 USD"
    assert found.per_thousand_good_requests == "0.00694 USD"


def test_a_pool_without_a_gpu_costs_nothing_now():
    assert cost_of(COST, gpus=0, recent=recent(goodput_rps=1.0)).per_hour == "0 EUR"
