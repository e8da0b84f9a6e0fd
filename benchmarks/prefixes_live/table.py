"""The figures of runs, as JSON and as tables."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from benchmarks.load.record import Record, quantile
from benchmarks.prefixes.table import table
from benchmarks.prefixes_live.run import Event, Pass, Plan, differing

PLACEMENT_HEAD = (
    *("cache of a pod", "at a time", "placement", "prompt tokens", "computed", "hit share"),
    *("of endless", "of one cache", "TTFT p50", "TTFT p95", "other answers"),
)
EVENTS_HEAD = ("event", "pass", "hit share", "of endless", "foreseen over found", "other answers")

Row = dict[str, Any]


def row_of(
    plan: Plan,
    made: Sequence[Pass],
    alone: Sequence[Record],
    *,
    endless: Sequence[int],
) -> Row:
    """Return the figures of a run; `alone` has the answers of one engine in the same order."""
    records = list(chain.from_iterable(one.records for one in made))
    firsts = [record.ttft_s for record in records if record.ttft_s is not None]
    passes, at = [], 0
    for one, ideal in zip(made, endless, strict=True):
        until = at + len(one.records)
        passes.append(
            {
                "asked": sum(record.prompt_tokens for record in one.records),
                "looked_up": one.total(lambda counted: counted.looked_up),
                "found": one.total(lambda counted: counted.found),
                "computed": one.total(lambda counted: counted.computed),
                "foreseen": one.foreseen,
                "endless": ideal,
                "differing": differing(one.records, alone[at:until]),
                "by_pod": {pod: counted.looked_up for pod, counted in one.by_pod.items()},
            }
        )
        at = until
    return {
        "at_a_time": plan.at_a_time,
        "placement": "Prefix" if plan.by_prefix else "LeastLoaded",
        "event": plan.event,
        "requests": len(records),
        "ttft_p50_s": quantile(firsts, 0.5),
        "ttft_p95_s": quantile(firsts, 0.95),
        "differing": sum(each["differing"] for each in passes),
        "why": sorted({record.why for record in records if record.why}),
        "passes": passes,
    }


def placement_table(rows: Iterable[Row]) -> str:
    """Return the table of placements."""
    return table(PLACEMENT_HEAD, (_placed(r) for r in rows if r["event"] == Event.NOTHING))


def events_table(rows: Iterable[Row]) -> str:
    """Return the table of runs in which a part restarts, by pass."""
    told = [row for row in rows if row["event"] != Event.NOTHING]
    return table(
        EVENTS_HEAD,
        (
            _happened(row, number, each)
            for row in told
            for number, each in enumerate(row["passes"], start=1)
        ),
    )


def _placed(row: Row) -> list[str]:
    def total(name: str) -> float:
        return float(sum(each[name] for each in row["passes"]))

    return [
        f"{row['kv_tokens']:,}",
        f"{row['at_a_time']}",
        row["placement"],
        f"{total('looked_up'):,.0f}",
        f"{total('computed'):,.0f}",
        f"{total('found') / total('looked_up'):.3f}",
        f"{total('found') / total('endless'):.2f}",
        f"{total('found') / row['one_cache']:.2f}",
        f"{row['ttft_p50_s']:.2f} s",
        f"{row['ttft_p95_s']:.2f} s",
        f"{row['differing']} of {row['requests']:,}",
    ]


def _happened(row: Row, number: int, each: dict[str, Any]) -> list[str]:
    share = each["found"] / each["looked_up"]
    return [
        row["event"],
        f"{number}",
        f"{share:.3f}",
        f"{share * each['asked'] / each['endless']:.2f}",
        f"{each['foreseen'] / each['found']:.2f}" if each["found"] else "",
        f"{each['differing']}",
    ]
