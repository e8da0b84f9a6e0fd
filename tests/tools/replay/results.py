"""Made-up results of replays."""

from benchmarks.replay.simulate import Result


def result(good: int, gpu_s: float = 250.0) -> Result:
    return Result(
        requests=1000,
        completed=1000,
        good=good,
        gpu_s=gpu_s,
        duration_s=100.0,
        prefill_mean=1.0,
        decode_mean=1.0,
        ttft_s={"p95": 0.4},
        tpot_s={"p95": 0.015},
        changes=3,
        moments=(),
    )
