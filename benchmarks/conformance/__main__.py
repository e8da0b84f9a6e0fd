"""Compare a pool with plain vLLM, through the official clients of OpenAI and Anthropic.

Starts vLLM alone, and a prefill engine, a decode engine and a router, all of the demo model on
loopback. Sends each call to both, compares the answers field by field at temperature 0, and prints
each difference that docs/reference/compatibility.md does not have. A row of that page that speaks
of no difference is an error as well.

    python -m benchmarks.conformance --python ENGINE_PYTHON --model ~/.cache/tandem/tiny-model
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from benchmarks.conformance.asked import Clients
from benchmarks.conformance.calls import CALLS, Call
from benchmarks.conformance.compare import IGNORED, Difference, Written, differences, rows_of
from benchmarks.conformance.servers import Servers, servers

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "compatibility.md"
HEADING = "## Written differences"

Answers = dict[str, dict[str, Any]]


def parser() -> argparse.ArgumentParser:
    """Return the command line's grammar."""
    lines = (__doc__ or "").splitlines()
    options = argparse.ArgumentParser(prog="python -m benchmarks.conformance", description=lines[0])
    options.add_argument("--python", default=sys.executable, help="interpreter that has vLLM")
    options.add_argument("--model", help="folder of a model with a chat template")
    options.add_argument("--only", default="*", help="calls whose name is so, such as 'chat/*'")
    options.add_argument("--plain-url", help="of a vLLM that runs, instead of one to start")
    options.add_argument("--pool-url", help="of its pool")
    options.add_argument("--out", type=Path, help="write both answers to each call there, as JSON")
    return options


async def compared(both: Servers, calls: Sequence[Call]) -> tuple[list[Difference], Answers]:
    """Return every difference between the two servers' answers, and the answers."""
    found: list[Difference] = []
    answers: Answers = {}
    async with AsyncExitStack() as held:
        plain, pool = Clients(both.plain_url), Clients(both.pool_url)
        held.push_async_callback(plain.close)
        held.push_async_callback(pool.close)
        for call in calls:
            theirs, ours = await asyncio.gather(plain.answer(call), pool.answer(call))
            answers[call.name] = {"plain": theirs, "pool": ours}
            found += differences(call.name, theirs, ours)
    return found, answers


def unwritten(found: Iterable[Difference], written: Sequence[Written]) -> list[Difference]:
    """Return the differences that no row of the page describes."""
    return [each for each in found if not any(row.holds(each) for row in written)]


def idle(found: Sequence[Difference], written: Iterable[Written]) -> list[Written]:
    """Return the rows that describe no found difference."""
    return [row for row in written if not any(row.holds(each) for each in found)]


async def _main(options: argparse.Namespace) -> int:
    calls = [call for call in CALLS if fnmatch(call.name, options.only)]
    async with AsyncExitStack() as held:
        if options.plain_url and options.pool_url:
            both = Servers(options.plain_url, options.pool_url)
        else:
            logs = Path(held.enter_context(tempfile.TemporaryDirectory()))
            both = await held.enter_async_context(servers(options.python, options.model, logs))
        found, answers = await compared(both, calls)
    return _told(options, calls, found, answers)


def _told(
    options: argparse.Namespace,
    calls: Sequence[Call],
    found: Sequence[Difference],
    answers: Answers,
) -> int:
    """Print the differences that are not written down; return the exit status."""
    if options.out is not None:
        options.out.write_text(json.dumps(answers, indent=1, default=repr) + "\n")
    written = rows_of(PAGE.read_text(), heading=HEADING)
    new = unwritten(found, written)
    # What an engine has in its cache already shows in an answer, so only a fresh one counts.
    fresh = options.only == "*" and not options.pool_url
    stale = idle(found, written) if fresh else []
    print(f"{len(calls)} calls; compared by presence alone: {', '.join(sorted(IGNORED))}")
    for difference in new:
        print(difference)
    for row in stale:
        print("no such difference any more:", *row.calls, *row.fields, *sorted(row.kinds))
    print(f"{len(found)} differences, {len(new)} of them not written down; {len(stale)} idle rows")
    return 1 if new or stale else 0


if __name__ == "__main__":
    raise SystemExit(asyncio.run(_main(parser().parse_args())))
