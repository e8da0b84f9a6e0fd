"""Ten tenants on one fleet, and one of them floods it: `-m benchmarks.tenants`.

Virtual time: the same numbers each time.
"""

import argparse
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.chat_pool import served
from benchmarks.classes import BOUNDS, CHAT, INTERACTIVE
from benchmarks.told import told
from tandem_operator.sim.flight import judge
from tandem_operator.sim.pool import Pool
from tandem_operator.sim.routing.router_queue import QueueSettings
from tandem_operator.sim.routing.tenant_rules import TenantRules, named_tenant
from tandem_operator.sim.traces.generate import burst, constant, poisson
from tandem_operator.sim.traces.trace import Trace, TraceRequest, joined, of_tenant
from tandem_routing.tenant_limits import TenantLimit

TENANTS = tuple(f"tenant-{number}" for number in range(10))
FLOODING = TENANTS[-1]
SLO = BOUNDS[INTERACTIVE]
RATE_RPS = 3.0
SPAN_S, FLOOD_FROM_S, FLOOD_UNTIL_S = 240.0, 60.0, 180.0


@dataclass(frozen=True, slots=True)
class Load:
    """Ten tenants ask for the same; in the flood, the last asks for `flood_rps`."""

    flood_rps: float = RATE_RPS

    def trace(self) -> Trace:
        """All requests, each with its tenant."""
        found = []
        for number, tenant in enumerate(TENANTS):
            rate, most_rps = constant(RATE_RPS), RATE_RPS
            if tenant == FLOODING and self.flood_rps > RATE_RPS:
                most_rps = self.flood_rps
                rate = burst(
                    rate,
                    factor=self.flood_rps / RATE_RPS,
                    begin_s=FLOOD_FROM_S,
                    end_s=FLOOD_UNTIL_S,
                )
            trace = poisson(
                tenant, rate, most_rps=most_rps, span_s=SPAN_S, mix=CHAT, seed=number + 1
            )
            found.append(of_tenant(trace, tenant))
        return joined("ten tenants", found)


LIMIT = TenantLimit(requests=240)
SERVICES: dict[str, TenantRules | None] = {
    "no": None,
    "yes": TenantRules(),
    "limit of 240/min": TenantRules({FLOODING: named_tenant(FLOODING, limit=LIMIT)}),
}
LOADS = {"no flood": Load(), "flood of 70/s": Load(70.0), "flood of 420/s": Load(420.0)}


@dataclass(frozen=True, slots=True)
class Row:
    """What the tenants got of the requests that came during the flood.

    Attributes:
        worst: attainment of the one of the nine that has the least.
        flooding: good requests of the flooding tenant, as a share of all that it sent.
        refused: its requests beyond its limit, as a share of all that it sent.
        served: its output tokens per second.
    """

    nine: float
    worst: float
    nine_ttft_p50_s: float
    nine_ttft_p99_s: float
    flooding: float
    refused: float
    served: float


def run(load: Load, *, tenants: TenantRules | None) -> Row:
    """Serve a load by a fixed fleet."""
    router = QueueSettings(first_token_s=30.0, tenants=tenants)
    trace = load.trace()
    return _row(trace, served(trace, slo=SLO, patience_s=60.0, router=router)[1])


def _during(request: TraceRequest) -> bool:
    return FLOOD_FROM_S <= request.at_s < FLOOD_UNTIL_S


def _row(trace: Trace, pool: Pool) -> Row:
    asked = Counter(request.tenant for request in trace.requests if _during(request))
    limited = Counter(request.tenant for request in pool.limited if _during(request))
    during = [flight for flight in pool.ended if _during(flight.request)]
    good = dict.fromkeys(TENANTS, 0)
    for flight in during:
        good[flight.request.tenant] += judge(flight, SLO).good
    nine = [name for name in TENANTS if name != FLOODING]
    waits = sorted(f.ttft_s for f in during if f.request.tenant in nine and f.ttft_s is not None)
    made = sum(f.made for f in during if f.request.tenant == FLOODING)
    return Row(
        nine=sum(good[name] for name in nine) / sum(asked[name] for name in nine),
        worst=min(good[name] / asked[name] for name in nine),
        nine_ttft_p50_s=waits[len(waits) // 2],
        nine_ttft_p99_s=waits[int(0.99 * len(waits))],
        flooding=good[FLOODING] / asked[FLOODING],
        refused=limited[FLOODING] / asked[FLOODING],
        served=made / (FLOOD_UNTIL_S - FLOOD_FROM_S),
    )


def rows() -> Iterator[tuple[str, str, Row]]:
    """Yield each load under each service."""
    for name, load in LOADS.items():
        for service, tenants in SERVICES.items():
            yield name, service, run(load, tenants=tenants)


def main() -> None:
    """Print a table, and write it as JSON too."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tenants", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print(
        "| load | tenants | nine | worst of nine | TTFT p50 | TTFT p99 | flooding | refused"
        " | its tokens/s |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    told(rows(), line=_line, figures=_figures, path=options.json)


def _line(entry: tuple[str, str, Row]) -> str:
    load, service, row = entry
    return (
        f"| {load} | {service} | {row.nine:.4f} | {row.worst:.4f}"
        f" | {row.nine_ttft_p50_s:.2f} s | {row.nine_ttft_p99_s:.2f} s"
        f" | {row.flooding:.4f} | {row.refused:.4f} | {row.served:,.0f} |"
    )


def _figures(entry: tuple[str, str, Row]) -> dict[str, object]:
    load, service, row = entry
    return {"load": load, "tenants": service, **asdict(row)}


if __name__ == "__main__":
    main()
