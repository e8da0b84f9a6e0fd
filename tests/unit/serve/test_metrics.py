import pytest

from tandem_engine.serve.vllm_metrics import (
    MissingMetricError,
    counters,
    kv_capacity_tokens,
    load,
    parse,
    total,
)

PAGE = """# HELP vllm:num_requests_running Number of requests.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a \\"b\\" {c}"} 2.0
vllm:num_requests_running{engine="1",model_name="x"} 1.0
vllm:num_requests_waiting{engine="0",model_name="x"} 0.0
vllm:kv_cache_usage_perc{engine="0",model_name="x"} 2.5e-01
vllm:request_success_total{engine="0",finished_reason="stop"} 3.0
vllm:request_success_total{engine="0",finished_reason="length"} 4.0
vllm:cache_config_info{block_size="32",num_gpu_blocks="1024",sliding_window="None"} 1.0
vllm:generation_tokens_total{engine="0",model_name="x"} 70.0
vllm:iteration_tokens_total_count{engine="0",model_name="x"} 30.0
process_open_fds 12.0
"""


def test_load_sums_over_engines_and_reasons() -> None:
    held = load(parse(PAGE))

    assert (held.running, held.waiting, held.kv_usage_share, held.finished) == (3, 0, 0.25, 7)
    assert not held.idle


def test_what_moves_while_an_engine_works_is_read() -> None:
    moving = counters(parse(PAGE))

    assert (moving.requests, moving.tokens, moving.steps, moving.kv_usage_share) == (
        3,
        70,
        30,
        0.25,
    )
    assert not moving.asleep


@pytest.mark.parametrize(("awake", "asleep"), [(1.0, False), (0.0, True)])
def test_an_engine_that_sleeps_says_so(awake: float, asleep: bool) -> None:
    state = f'vllm:engine_sleep_state{{engine="0",sleep_state="awake"}} {awake}\n'

    assert counters(parse(PAGE + state)).asleep is asleep


def test_samples_are_chosen_by_label() -> None:
    assert total(parse(PAGE), "vllm:request_success_total", finished_reason="length") == 4


def test_a_missing_metric_is_not_zero() -> None:
    with pytest.raises(MissingMetricError, match="num_requests_waiting"):
        load(parse("vllm:num_requests_running 0.0\n"))


def test_kv_capacity_is_blocks_times_their_size() -> None:
    assert kv_capacity_tokens(parse(PAGE)) == 32768
    assert kv_capacity_tokens(parse("")) is None
    assert kv_capacity_tokens(parse('vllm:cache_config_info{num_gpu_blocks="None"} 1')) is None
