import math

import pytest

from tandem_operator.core.role import Role
from tandem_operator.metrics.samples import (
    ENGINE_METRICS,
    added,
    buckets_of,
    engine_sample,
    parse_page,
    quantiles,
)

PAGE = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 4.0
vllm:num_requests_waiting{engine="0",model_name="m"} 1.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 99.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="1000"} 1.0
vllm:inter_token_latency_seconds_sum{engine="0",model_name="m"} 12.5
vllm:inter_token_latency_seconds_count{engine="0",model_name="m"} 500.0
vllm:inter_token_latency_seconds_bucket{engine="0",le="0.1",model_name="m"} 500.0
vllm:generation_tokens_total{engine="0",model_name="m"} 777.0
vllm:nixl_xfer_time_seconds_sum{engine="0",model_name="m"} 0.5
vllm:nixl_xfer_time_seconds_count{engine="0",model_name="m"} 10.0
python_gc_objects_collected_total{generation="0"} 1.0
"""


def sample_of(page):
    return engine_sample(
        parse_page(page, wanted=ENGINE_METRICS), pod="p", role=Role.DECODE, sampled_s=5.0
    )


def test_reads_a_vllm_page_over_all_engine_ranks():
    sample = sample_of(PAGE)

    assert (sample.running, sample.waiting, sample.kv_usage_ratio) == (7.0, 1.0, 0.25)
    assert sample.kv_capacity_tokens == 16000
    assert (sample.itl_sum_s, sample.itl_count) == (12.5, 500.0)
    assert sample.generation_tokens_total == 777.0
    assert (sample.transfer_sum_s, sample.transfer_count) == (0.5, 10.0)


def test_series_that_two_scrapes_gave_count_once_for_each_rank():
    twice = [
        line.replace("{", f'{{job="{job}",instance="{job}:1",', 1)
        for line in PAGE.splitlines()
        if line.startswith("vllm:")
        for job in ("pods", "monitor")
    ]

    assert sample_of("\n".join(twice)) == sample_of(PAGE)


def test_ranks_are_told_apart_where_a_target_label_took_their_label():
    renamed = PAGE.replace('engine="', 'engine="vllm",exported_engine="')

    assert sample_of(renamed) == sample_of(PAGE)


def test_a_missing_metric_is_unknown_and_not_zero():
    kept = "\n".join(line for line in PAGE.splitlines() if "nixl" not in line and "kv_" not in line)

    sample = sample_of(kept)

    assert sample.transfer_count is None
    assert sample.kv_usage_ratio is None


@pytest.mark.parametrize("value", ["NaN", "-1.0", "+Inf"])
def test_a_load_that_is_no_number_makes_the_whole_sample_unknown(value):
    page = "\n".join(
        line.rsplit(" ", 1)[0] + f" {value}" if line.startswith("vllm:num_requests_w") else line
        for line in PAGE.splitlines()
    )

    assert sample_of(page) is None


def test_an_unknown_cache_size_is_unknown():
    assert sample_of(PAGE.replace('"1000"', '"None"')).kv_capacity_tokens is None


def test_a_page_that_is_none_is_refused():
    with pytest.raises(ValueError, match=r"."):
        parse_page('vllm:num_requests_running{engine="0" oops', wanted=ENGINE_METRICS)


def test_quantiles_lie_inside_their_bucket():
    buckets = {0.1: 50.0, 0.2: 90.0, 0.4: 100.0, math.inf: 100.0}

    found = quantiles(buckets)

    assert found.p50_s == pytest.approx(0.1)
    assert found.p95_s == pytest.approx(0.3)
    assert found.p99_s == pytest.approx(0.38)


def test_quantiles_beyond_the_last_bound_are_at_least_that_bound():
    assert quantiles({0.1: 0.0, math.inf: 5.0}).p50_s == 0.1


def test_quantiles_of_nothing_are_unknown():
    assert quantiles({0.1: 0.0, math.inf: 0.0}).p95_s is None
    assert quantiles({}).p95_s is None


def test_a_reset_counter_is_seen():
    assert added({0.1: 5.0, math.inf: 9.0}, {0.1: 0.0, math.inf: 3.0}) is None
    assert added({0.1: 5.0}, {0.1: 5.0, math.inf: 9.0}) is None
    assert added({0.1: 5.0, math.inf: 9.0}, {0.1: 6.0, math.inf: 12.0}) == {0.1: 1.0, math.inf: 3.0}


def test_a_histogram_with_nonsense_in_it_is_unknown():
    page = 'h_bucket{le="0.1"} NaN\nh_bucket{le="+Inf"} 3\n'

    assert buckets_of(parse_page(page, wanted=("h_bucket",)), "h_bucket") is None
