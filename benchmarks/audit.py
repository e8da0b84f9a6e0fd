r"""`python -m benchmarks.audit`: does the router measure what its clients measure?

Joins a client's records with the router's timing record (`tandem-router --timing-record FILE`) by
request id and compares TTFT and TPOT. The client is our own load generator (`--record`) or aiperf
(`profile_export.jsonl`), which shares no code with either:

    uvx aiperf profile -m tiny -u http://127.0.0.1:30080 --endpoint-type completions --streaming \
        --tokenizer DIRECTORY --use-server-token-count --extra-inputs ignore_eos:true \
        --request-rate 2 --request-count 200 --output-artifact-dir build/aiperf
"""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.load.record import quantile

RELATIVE_TOLERANCE = 0.05
ABSOLUTE_TOLERANCE_S = 0.010
SHARES = {"p50": 0.5, "p95": 0.95}


@dataclass(frozen=True, slots=True)
class Timing:
    """The latencies of one request, as one of the two sides measured them."""

    request_id: str
    ttft_s: float | None
    tpot_s: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """One quantile of one latency, measured twice."""

    name: str
    client_s: float
    router_s: float

    @property
    def agrees(self) -> bool:
        """Return whether both are within 5 % or 10 ms of each other."""
        difference_s = abs(self.client_s - self.router_s)
        return difference_s <= max(ABSOLUTE_TOLERANCE_S, RELATIVE_TOLERANCE * self.client_s)

    def __str__(self) -> str:
        """Return one line for people."""
        difference_s = self.router_s - self.client_s
        return (
            f"{self.name}: client {1000 * self.client_s:.2f} ms, router "
            f"{1000 * self.router_s:.2f} ms, difference {1000 * difference_s:+.2f} ms "
            f"({100 * difference_s / self.client_s:+.1f} %): {'agrees' if self.agrees else 'NO'}"
        )


def read_timings(path: Path) -> list[Timing]:
    """Return the timings from our own records, the router's timing record, or aiperf's export."""
    lines = (json.loads(line) for line in path.read_text().splitlines() if line.strip())
    return [_of_aiperf(line) if "metadata" in line else _of_ours(line) for line in lines]


def _of_ours(line: Mapping[str, Any]) -> Timing:
    return Timing(
        request_id=line["request_id"], ttft_s=line.get("ttft_s"), tpot_s=line.get("tpot_s")
    )


def _of_aiperf(line: Mapping[str, Any]) -> Timing:
    # aiperf's inter_token_latency is (last token - first) / (output tokens - 1): our TPOT.
    return Timing(
        request_id=line["metadata"]["x_request_id"],
        ttft_s=_aiperf_seconds(line["metrics"], "time_to_first_token"),
        tpot_s=_aiperf_seconds(line["metrics"], "inter_token_latency"),
    )


def _aiperf_seconds(metrics: Mapping[str, Any], name: str) -> float | None:
    measured = metrics.get(name)
    if measured is None:
        return None
    if measured["unit"] != "ms":
        raise ValueError(f"aiperf gives {name} in {measured['unit']}, expected ms")
    return float(measured["value"]) / 1000.0


def compare(
    client: Iterable[Timing], router: Iterable[Timing]
) -> tuple[int, list[str], list[Comparison]]:
    """Return the requests that both know, those that only the client knows, and the comparisons."""
    known = {timing.request_id: timing for timing in router}
    pairs, missing = [], []
    for timing in client:
        other = known.get(timing.request_id)
        if other is None:
            missing.append(timing.request_id)
        else:
            pairs.append((timing, other))
    comparisons = []
    for field in ("ttft_s", "tpot_s"):
        both = [
            (getattr(mine, field), getattr(theirs, field))
            for mine, theirs in pairs
            if getattr(mine, field) is not None and getattr(theirs, field) is not None
        ]
        for label, share in SHARES.items():
            client_s = quantile((mine for mine, _ in both), share)
            router_s = quantile((theirs for _, theirs in both), share)
            if client_s is not None and router_s is not None:
                name = f"{field.removesuffix('_s').upper()} {label} of {len(both)}"
                comparisons.append(Comparison(name, client_s=client_s, router_s=router_s))
    return len(pairs), missing, comparisons


def main(argv: list[str] | None = None) -> int:
    """Print the comparison; exit 1 unless all was joined and everything agrees."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.audit",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--client", type=Path, required=True, help="records of the load's sender")
    parser.add_argument("--router", type=Path, required=True, help="the router's timing record")
    options = parser.parse_args(argv)
    joined, missing, comparisons = compare(
        read_timings(options.client), read_timings(options.router)
    )
    print(f"{joined} requests joined by id, {len(missing)} that the router does not know")
    for comparison in comparisons:
        print(comparison)
    if not comparisons:
        print("nothing to compare: no request has a latency on both sides")
    good = bool(comparisons) and not missing and all(each.agrees for each in comparisons)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
