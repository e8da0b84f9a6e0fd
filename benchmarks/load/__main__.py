"""`python -m benchmarks.load`: one stretch of steady traffic, its figures on standard output."""

import argparse
import asyncio
import json
import sys
from dataclasses import asdict
from pathlib import Path

from benchmarks.load.generator import LoadGenerator
from benchmarks.load.plan import Lengths, Traffic, plan_requests
from benchmarks.load.record import Outcome, Record, tally
from tandem_operator.core.slo import Slo


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load", description=__doc__)
    parser.add_argument(
        "--url", required=True, help="router address, such as http://127.0.0.1:30080"
    )
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--rate-rps", type=float, default=2.0)
    parser.add_argument("--duration-s", type=float, default=30.0)
    parser.add_argument("--prompt-tokens", type=Lengths.parse, default=Lengths(100, 400))
    parser.add_argument("--output-tokens", type=Lengths.parse, default=Lengths(16, 64))
    parser.add_argument("--vocabulary", type=int, default=1024, help="token ids stay below this")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timeout-s", type=float, default=120.0)
    parser.add_argument("--ttft-s", type=float, default=1.0, help="bound that makes a request good")
    parser.add_argument("--tpot-s", type=float, default=0.1, help="bound that makes a request good")
    parser.add_argument("--record", type=Path, help="JSON lines, one per request, appended")
    return parser.parse_args(argv)


async def _run(options: argparse.Namespace) -> list[Record]:
    traffic = Traffic(
        name="steady",
        rate_rps=options.rate_rps,
        duration_s=options.duration_s,
        prompt_tokens=options.prompt_tokens,
        output_tokens=options.output_tokens,
    )
    generator = LoadGenerator(
        url=options.url,
        model=options.model,
        timeout_s=options.timeout_s,
        record_path=options.record,
    )
    async with generator:
        plan = plan_requests(traffic, seed=options.seed, vocabulary=options.vocabulary)
        return await generator.run(plan, traffic=traffic.name)


def main(argv: list[str] | None = None) -> int:
    """Run the load; exit 1 if a request failed."""
    options = _arguments(argv)
    records = asyncio.run(_run(options))
    slo = Slo(
        ttft_s=options.ttft_s,
        ttft_s_per_thousand_prompt_tokens=0.0,
        tpot_s=options.tpot_s,
        attainment=0.95,
    )
    figures = tally([(record, slo) for record in records])
    print(json.dumps({**asdict(figures), "attainment": figures.attainment}, indent=2))
    return 1 if any(record.outcome is Outcome.FAILED for record in records) else 0


if __name__ == "__main__":
    sys.exit(main())
