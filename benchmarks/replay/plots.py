"""Draw how each policy went through a trace: arrivals, replicas, queue and TTFT over time."""

from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt

from benchmarks.replay.simulate import Result

mpl.use("Agg")

LEAST_TTFT_S = 0.01


def draw(name: str, results: Mapping[str, Result], ttft_s: float, path: Path) -> None:
    """Draw one picture of all policies on one trace."""
    figure, axes = plt.subplots(4, 1, sharex=True, figsize=(11, 12), layout="constrained")
    arrivals, replicas, queue, ttft = axes
    for policy, result in results.items():
        at_s = [m.at_s for m in result.moments]
        if policy == next(iter(results)):
            arrivals.plot(at_s, [m.arrivals_rps for m in result.moments], color="black")
        label = f"{policy}: {result.attainment:.3f} @ {result.good_per_gpu_s:.2f}"
        held = [m.prefill + m.decode + m.starting for m in result.moments]
        replicas.step(at_s, held, where="post", label=label)
        queue.plot(at_s, [m.waiting_prefill for m in result.moments])
        late = [(m.at_s, max(m.ttft_s, LEAST_TTFT_S)) for m in result.moments if m.ttft_s]
        ttft.plot([at for at, _ in late], [seconds for _, seconds in late])
    arrivals.set_ylabel("requests/s")
    arrivals.set_title(name)
    replicas.set_ylabel("GPUs held")
    replicas.legend(fontsize="small")
    queue.set_ylabel("requests waiting for prefill")
    queue.set_yscale("symlog")
    ttft.axhline(ttft_s, color="grey", linestyle="--")
    ttft.set_ylabel("mean TTFT, s")
    ttft.set_yscale("log")
    ttft.set_xlabel("s")
    figure.savefig(path, dpi=110)
    plt.close(figure)
