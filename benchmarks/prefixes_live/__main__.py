"""Prefix placement with real engines: `python -m benchmarks.prefixes_live --model FOLDER`.

Starts prefill engines with small caches and a decode engine of the demo model on loopback, and a
new router for each run. Prompts of a few prefixes come in random order. It prints what vLLM itself
counts, and compares each answer with that of one engine alone, token by token.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import aiohttp

from benchmarks.load.record import Record
from benchmarks.prefixes_live.pool import Engines, LivePool, live_pool
from benchmarks.prefixes_live.prompts import BLOCK_TOKENS, Prompt, Shape, in_one_cache, passes_of
from benchmarks.prefixes_live.run import THIRD, Event, Pass, Plan, run, sent
from benchmarks.prefixes_live.table import Row, events_table, placement_table, row_of


def parser() -> argparse.ArgumentParser:
    """Return the command line's grammar."""
    usual = Shape()
    lines = (__doc__ or "").splitlines()
    options = argparse.ArgumentParser(
        prog="python -m benchmarks.prefixes_live", description=lines[0]
    )
    options.add_argument("--python", default=sys.executable, help="interpreter that has vLLM")
    options.add_argument("--model", required=True, help="folder of the demo model")
    options.add_argument("--pods", type=int, default=4, help="prefill engines (%(default)s)")
    options.add_argument("--prefixes", type=int, default=usual.prefixes)
    options.add_argument("--prefix-tokens", type=int, default=usual.prefix_tokens)
    options.add_argument("--each", type=int, default=usual.each, help="of a prefix in one pass")
    options.add_argument("--passes", type=int, default=usual.passes)
    options.add_argument(
        "--kv-tokens", type=int, nargs="+", default=[20480, 98304], help="of one engine's cache"
    )
    options.add_argument(
        "--at-a-time", type=int, nargs="+", default=[2, 8], help="requests that are under way"
    )
    options.add_argument("--no-events", action="store_true", help="leave the restarts out")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--logs", type=Path, help="folder for the logs of all processes")
    options.add_argument("--json", type=Path, help="write the figures of each run there")
    return options


def plans(options: argparse.Namespace, kv_tokens: int) -> list[Plan]:
    """Return the runs with caches of one size; restarts come with the smallest caches alone."""
    found = [
        Plan(by_prefix, at_a_time, Event.NOTHING, "")
        for at_a_time in options.at_a_time
        for by_prefix in (False, True)
    ]
    if not options.no_events and kv_tokens == min(options.kv_tokens):
        found += [
            Plan(True, options.at_a_time[0], event, "") for event in (Event.ROUTER, Event.ENGINE)
        ]
    return [replace(plan, salt=f"kv-{kv_tokens}-run-{number}") for number, plan in enumerate(found)]


async def measured(options: argparse.Namespace, folder: Path) -> list[Row]:
    """Make every run, and return its figures."""
    shape = Shape(
        prefixes=options.prefixes,
        prefix_tokens=options.prefix_tokens,
        each=options.each,
        passes=options.passes,
    )
    passes = passes_of(shape, seed=options.seed)
    rows: list[Row] = []
    alone: list[Record] | None = None
    async with aiohttp.ClientSession() as session:
        for kv_tokens in options.kv_tokens:
            engines = Engines(options.python, options.model, kv_tokens, folder, session)
            _tell(f"{options.pods} prefill engines and one decode engine, {kv_tokens} KV tokens")
            async with live_pool(engines, pods=options.pods) as pool:
                if alone is None:
                    _tell("answers of one engine alone")
                    alone = await _alone(pool, passes)
                async for row in _rows(options, pool, passes, alone):
                    rows.append(row)
                    if options.json is not None:
                        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return rows


async def _alone(pool: LivePool, passes: Sequence[Sequence[Prompt]]) -> list[Record]:
    prompts = list(chain.from_iterable(passes))
    return await sent(prompts, pool.decode.api.url, salt="alone", at_a_time=2)


async def _rows(
    options: argparse.Namespace,
    pool: LivePool,
    passes: Sequence[Sequence[Prompt]],
    alone: Sequence[Record],
) -> AsyncIterator[Row]:
    endless = in_one_cache(passes)
    kv_tokens = pool.engines.kv_tokens
    together = in_one_cache(passes, blocks=options.pods * kv_tokens // BLOCK_TOKENS)

    def told(number: int, one: Pass) -> None:
        looked_up, found = one.total(lambda c: c.looked_up), one.total(lambda c: c.found)
        _tell(
            f"  pass {number + 1}: {len(one.records)} requests, {found:.0f} of {looked_up:.0f}"
            f" prompt tokens were cached, {endless[number]} in an endless cache; by pod: "
            + ", ".join(f"{pod}: {each.looked_up:.0f}" for pod, each in one.by_pod.items())
        )

    for plan in plans(options, kv_tokens):
        placement = "Prefix" if plan.by_prefix else "LeastLoaded"
        _tell(f"{placement}, {plan.at_a_time} at a time, {kv_tokens} KV tokens: {plan.event}")
        made = await run(pool, plan, passes, told=told)
        figures = row_of(plan, made, alone, endless=endless)
        yield {"kv_tokens": kv_tokens, "one_cache": sum(together), **figures}


def _tell(text: str) -> None:
    print(f"{time.monotonic() - _BEGAN_S:6.0f} s  {text}", flush=True)


_BEGAN_S = time.monotonic()


def main() -> int:
    """Measure, and print the tables; exit with 1 if an answer differs."""
    grammar = parser()
    options = grammar.parse_args()
    if options.passes <= THIRD and not options.no_events:
        grammar.error(f"restarts need more than {THIRD} passes: give --no-events")
    with tempfile.TemporaryDirectory() as own:
        folder = options.logs or Path(own)
        folder.mkdir(parents=True, exist_ok=True)
        rows = asyncio.run(measured(options, folder))
    print(f"\n{placement_table(rows)}\n\n{events_table(rows)}")
    return 1 if any(row["differing"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
