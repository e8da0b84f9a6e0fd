"""The rows of a pool's dashboard that its routers measure: blame, queues, failures, tokens.

Their pods have no label `pool` in every installation, but a name that begins with the pool's.
"""

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row

from manifests.dashboards.panels import Query, Unit, lines
from manifests.dashboards.variables import NAMESPACE
from manifests.promql import quantile, selected

PODS = 'pod=~"${pool}-router-[^-]+(-[^-]+)?"'
EDGES = ("0.5", "0.95")


def of_routers(name: str, *matchers: str) -> str:
    """Return a series of the routers of the chosen pool."""
    return selected(f"tandem_router_{name}", NAMESPACE, PODS, *matchers)


def rate_of(name: str, *by: str, matcher: str | None = None) -> str:
    """Return the expression for the rate of a counter over all routers, for each `by`."""
    rate = f"rate({of_routers(name, *([matcher] if matcher else []))}[$__rate_interval])"
    return f"sum by ({', '.join(by)}) ({rate})" if by else f"sum({rate})"


def blamed(made: Dashboard) -> Dashboard:
    """Add the panels of the causes of late requests."""
    spent, counted = (rate_of(f"ttft_part_seconds_{each}", "part") for each in ("sum", "count"))
    native = f"histogram_avg({rate_of('ttft_part_seconds', 'part')})"
    return (
        made.with_row(Row("Causes of late requests"))
        .with_panel(
            lines(
                "Late requests by cause",
                "Each late or failed request is blamed on one cause. prefill, engine_queue and"
                " router_queue ask for prefill replicas, decode_step for decode replicas.",
                Query(rate_of("blame_total", "cause"), "{{cause}}"),
                unit=Unit.REQUESTS_PER_S,
                stacked=True,
            )
        )
        .with_panel(
            lines(
                "Parts of the mean TTFT",
                "The mean time that requests spent in each part of their way. The parts sum to the"
                " mean TTFT.",
                Query(f"{spent} / {counted} or {native}", "{{part}}"),
                unit=Unit.SECONDS,
                stacked=True,
            )
        )
        .with_panel(
            lines(
                "Ended requests by outcome",
                "gone: the client left. refused: the request was at fault. No other count includes"
                " refused requests.",
                Query(rate_of("requests_total", "outcome"), "{{outcome}}"),
                unit=Unit.REQUESTS_PER_S,
                stacked=True,
            )
        )
        .with_panel(
            lines(
                "TTFT and TPOT by the routers' histograms",
                "Percentiles over the shown interval, from the routers themselves. They include"
                " requests that the operator has not folded in yet.",
                *(
                    Query(_quantile(kind, edge), f"{kind.upper()} p{edge[2:].ljust(2, '0')}")
                    for kind in ("ttft", "tpot")
                    for edge in EDGES
                ),
                unit=Unit.SECONDS,
                width=12,
            )
        )
        .with_panel(
            lines(
                "Share of late requests by prompt length",
                "Each line is a range of prompt lengths. Its name is the longest prompt of the"
                " range, in tokens.",
                Query(
                    f"{rate_of('slo_requests_total', 'prompt_bucket', matcher=_VIOLATED)}"
                    f" / {rate_of('slo_requests_total', 'prompt_bucket')}",
                    "up to {{prompt_bucket}} tokens",
                ),
                unit=Unit.SHARE,
                width=12,
            )
        )
    )


_VIOLATED = 'result="violated"'


def _quantile(kind: str, edge: str) -> str:
    return quantile(
        edge, rate_of(f"{kind}_seconds_bucket", "le"), native=rate_of(f"{kind}_seconds")
    )


def routed(made: Dashboard) -> Dashboard:
    """Add the panels of the routers' work."""
    hits = f"{rate_of('cached_tokens_total')} / {rate_of('prompt_tokens_total')}"
    return (
        made.with_row(Row("Routers"))
        .with_panel(
            lines(
                "Requests in the router and at engines",
                "held: queued until decode pods can serve more streams within TPOT.",
                Query(f"sum({of_routers('queued_requests')})", "queued"),
                Query(f"sum({of_routers('held_requests')})", "held, of those queued"),
                Query(f"sum by (phase) ({of_routers('in_flight_requests')})", "at {{phase}} pods"),
                unit=Unit.COUNT,
            )
        )
        .with_panel(
            lines(
                "Engine pods as the routers see them",
                "The fewest that any router sees. ejected pods get no requests.",
                Query(f"min by (role, state) ({of_routers('pods')})", "{{role}} {{state}}"),
                unit=Unit.COUNT,
                stepped=True,
            )
        )
        .with_panel(
            lines(
                "Retries, requests without prefill, ejections",
                "How often the router retried a request, sent it only to a decode pod, or ejected a"
                " pod.",
                Query(rate_of("retries_total", "reason"), "retry: {{reason}}"),
                Query(rate_of("decode_only_total", "reason"), "decode only: {{reason}}"),
                Query(rate_of("ejections_total", "role", "reason"), "ejected {{role}}: {{reason}}"),
                Query(rate_of("kv_expired_total", "how"), "KV lease ran out: {{how}}"),
                Query(rate_of("engine_killers_total"), "refused: it ended engines"),
                unit=Unit.REQUESTS_PER_S,
            )
        )
        .with_panel(
            lines(
                "Tokens",
                "Prompt tokens, those of them that a prefix cache served, and generated tokens.",
                Query(rate_of("prompt_tokens_total"), "prompt"),
                Query(rate_of("cached_tokens_total"), "prompt, cached"),
                Query(rate_of("output_tokens_total"), "generated"),
                unit=Unit.TOKENS_PER_S,
            )
        )
        .with_panel(
            lines(
                "Prefix cache hits",
                "Share of prompt tokens that a prefix cache served.",
                Query(hits, "cached"),
                unit=Unit.SHARE,
            )
        )
        .with_panel(
            lines(
                "Busy share of each router",
                "Share of one core that each router used. A router uses one core at most.",
                Query(f"max by (pod) ({of_routers('busy_share')})", "{{pod}}"),
                unit=Unit.SHARE,
            )
        )
    )
