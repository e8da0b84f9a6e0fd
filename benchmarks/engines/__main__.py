"""Measure one prefill and one decode engine of a model on this machine's processor.

Starts both as pods do, with random weights in the shape of the model, which are as fast as its own.
Times prefill and decode steps, compares answers through both with those of one, and sends traffic
to each role and, through the router, to the pair. Writes all of it to `OUT/measured.json` and the
requests to `OUT/requests.jsonl`; `python -m benchmarks.engines.report OUT` reads them.

    python -m benchmarks.engines --python ENGINE_PYTHON --device cuda --out OUT
"""

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.engines import checkpoint_of, loads
from benchmarks.engines.answers import answers, moved
from benchmarks.engines.engine import EngineEndedError, Pair, RealEngine, start
from benchmarks.engines.timing import Clock, Step, prefill_times, step_times
from benchmarks.load.plan import Traffic
from benchmarks.load.record import Record, tally
from tandem_engine.serve.engine_settings import EngineSettings, Role
from tandem_engine.serve.measure import PrefillTime
from tandem_operator.core.slo import Slo

NAME = "measured"
# Both engines stand on the first GPU: each may claim less than half of it.
DEVICE_ARGUMENTS = {"cpu": (), "cuda": ("--extra-arg=--gpu-memory-utilization=0.47",)}


def parser() -> argparse.ArgumentParser:
    """Return the command line's grammar."""
    lines = (__doc__ or "").splitlines()
    options = argparse.ArgumentParser(prog="python -m benchmarks.engines", description=lines[0])
    options.add_argument("--python", default=sys.executable, help="interpreter that has vLLM")
    options.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    options.add_argument("--model", choices=tuple(checkpoint_of.SHAPES), default="llama-3.1-8b")
    options.add_argument("--checkpoint", type=Path, help="folder of its weights, made if missing")
    options.add_argument("--quantization", help="by vLLM's name, such as fp8")
    options.add_argument("--kv-cache-gb", type=float, default=20.0, help="of each engine")
    options.add_argument("--max-model-len", type=int, default=20480)
    options.add_argument("--max-num-seqs", type=int, default=256)
    options.add_argument("--load-s", type=float, default=40.0, help="of each kind of traffic")
    options.add_argument(
        "--parts", nargs="+", choices=tuple(_PARTS), default=tuple(_PARTS), help="these alone"
    )
    options.add_argument("--argument", action="append", default=[], help="more for both engines")
    options.add_argument("--out", type=Path, required=True)
    return options


async def measured(options: argparse.Namespace) -> dict[str, Any]:
    """Measure everything, in order, and return it."""
    found: dict[str, Any] = {"model": options.model, "quantization": options.quantization}
    began_s = time.monotonic()

    def note(what: str, value: Any) -> None:
        found[what] = value
        (options.out / "measured.json").write_text(json.dumps(found, indent=1) + "\n")
        print(f"{time.monotonic() - began_s:6.1f} s  {what}: {json.dumps(value)[:400]}", flush=True)

    options.checkpoint = options.checkpoint or options.out / "checkpoint"
    checkpoint_of.make(options.model, options.checkpoint, python=options.python)
    note("checkpoint", str(options.checkpoint))
    async with aiohttp.ClientSession() as session:
        pair = await started(options, session)
        try:
            infos = await asyncio.gather(pair.prefill.info(), pair.decode.info())
            note("prefill_info", infos[0])
            note("decode_info", infos[1])
            for part in (each for each in _PARTS if each in options.parts):
                await _PARTS[part](Bench(options, pair, infos, found, note))
        finally:
            await asyncio.gather(pair.prefill.end(), pair.decode.end())
    return found


@dataclass(frozen=True, slots=True)
class Bench:
    """Two Ready engines, their reports on themselves, and the folder for figures."""

    options: argparse.Namespace
    pair: Pair
    infos: Sequence[dict[str, Any]]
    found: dict[str, Any]
    note: Callable[[str, Any], None]

    def clock(self, engine: RealEngine) -> Clock:
        """Return a clock that times that engine."""
        return Clock(engine.api, EngineSettings(role=Role.PREFILL, model=NAME), random.Random(1))

    async def played(self, traffic: Traffic, url: str, slo: Slo = loads.SLO) -> None:
        """Send traffic and note its figures."""
        before = await moved(self.pair)
        records = await loads.played(
            traffic, url=url, model=NAME, file=self.options.out / "requests.jsonl"
        )
        after = await moved(self.pair)
        transfers = {name: round(after[name] - before[name], 3) for name in after}
        self.note(traffic.name, asdict(traffic) | figures(records, slo) | transfers)


async def _prefill(bench: Bench) -> None:
    longest = bench.infos[0]["max_model_len"]
    found = await prefill_times(bench.clock(bench.pair.prefill), longest=longest)
    bench.note("prefill", [asdict(each) for each in found])


async def _answers(bench: Bench) -> None:
    longest = bench.infos[0]["max_model_len"]
    found = await answers(bench.pair, model=NAME, longest=longest)
    bench.note("answers", [asdict(each) for each in found])
    bench.note("moved", await moved(bench.pair))


async def _steps(bench: Bench) -> None:
    info = bench.infos[1]
    found = await step_times(
        bench.clock(bench.pair.decode),
        longest=info["max_model_len"],
        kv_capacity_tokens=info["kv_capacity_tokens"],
        max_num_seqs=info["max_num_seqs"],
    )
    bench.note("steps", [asdict(each) for each in found])


async def _loads(bench: Bench) -> None:
    load_s, pair = bench.options.load_s, bench.pair
    prefill = [PrefillTime(**each) for each in bench.found["prefill"]]
    steps = [Step(**each) for each in bench.found["steps"]]
    for traffic in loads.prefill_traffic(prefill, duration_s=load_s):
        await bench.played(traffic, pair.prefill.api.url)
    for traffic in loads.decode_traffic(steps, duration_s=load_s):
        await bench.played(traffic, pair.decode.api.url)


async def _routed(bench: Bench) -> None:
    with loads.routed(bench.pair, model=NAME, folder=bench.options.out) as url:
        await bench.played(loads.pair_traffic(duration_s=bench.options.load_s), url)


async def _overload(bench: Bench) -> None:
    """Send more than the decode engine can serve in time: first without the gate, then with it."""
    info, options = bench.infos[1], bench.options
    over = loads.overload(
        [Step(**each) for each in bench.found["steps"]],
        kv_capacity_tokens=info["kv_capacity_tokens"],
        max_num_seqs=info["max_num_seqs"],
        duration_s=options.load_s,
    )
    with loads.routed(bench.pair, model=NAME, folder=options.out, slo=over.slo) as url:
        await bench.played(over.calm, url, over.slo)
    # Under traffic a step also waits for the prefill engine, where both share a processor.
    over = over.learned(bench.found[over.calm.name]["tpot_p50_s"])
    bench.note("overload", {"slo": asdict(over.slo), "streams": over.streams, **over.pace})
    for name, pace in (("overload-unlimited", None), ("overload-gate", over.pace)):
        with loads.routed(
            bench.pair, model=NAME, folder=options.out, slo=over.slo, pace=pace
        ) as url:
            await bench.played(replace(over.traffic, name=name), url, over.slo)


async def _whole(bench: Bench) -> None:
    """Send a decode engine streams and whole requests, to see what that costs both."""
    duration_s, url = bench.options.load_s, bench.pair.decode.api.url
    prefill = [PrefillTime(**each) for each in bench.found["prefill"]]
    steps = [Step(**each) for each in bench.found["steps"]]
    *_, streams = loads.decode_traffic(steps, duration_s=duration_s)
    await bench.played(replace(streams, name="streams-0"), url)
    for share, whole in loads.whole_traffic(prefill, duration_s=duration_s).items():
        beside = replace(streams, name=f"streams-{share:g}")
        await asyncio.gather(bench.played(beside, url), bench.played(whole, url))


async def _restart(bench: Bench) -> None:
    """Start the decode engine once more, now that what it compiled is on disk."""
    await bench.pair.decode.end()
    bench.pair.decode = await one_engine(bench.options, "decode", bench.pair.decode.api.session)
    await bench.pair.decode.ready()
    bench.note("restarted_decode_info", await bench.pair.decode.info())


_PARTS = {
    "prefill": _prefill,
    "answers": _answers,
    "steps": _steps,
    "loads": _loads,
    "routed": _routed,
    "overload": _overload,
    "whole": _whole,
    "restart": _restart,
}


_RATES_FROM = {
    "loads": {"prefill", "steps"},
    "overload": {"steps"},
    "whole": {"prefill", "steps"},
}


async def started(options: argparse.Namespace, session: aiohttp.ClientSession) -> Pair:
    """Return both engines, Ready."""
    prefill = await one_engine(options, "prefill", session)
    peer = (f"--warm-up-peer={prefill.api.url}", "--warm-up-peer-timeout-s=200")
    decode = await one_engine(options, "decode", session, *peer)
    try:
        await asyncio.gather(prefill.ready(), decode.ready())
    except BaseException:
        await asyncio.gather(prefill.end(), decode.end())
        raise
    return Pair(prefill, decode)


async def one_engine(
    options: argparse.Namespace, role: str, session: aiohttp.ClientSession, *more: str
) -> RealEngine:
    """Start one of them and return it."""
    return await start(
        options.python,
        f"--role={role}",
        f"--model={options.checkpoint}",
        f"--served-model-name={NAME}",
        f"--device={options.device}",
        f"--max-model-len={options.max_model_len}",
        f"--max-num-seqs={options.max_num_seqs}",
        f"--kv-cache-memory-bytes={int(options.kv_cache_gb * 1e9)}",
        *([f"--quantization={options.quantization}"] if options.quantization else []),
        *DEVICE_ARGUMENTS[options.device],
        *options.argument,
        *more,
        session=session,
        log=options.out / f"{role}.log",
    )


def figures(records: Sequence[Record], slo: Slo) -> dict[str, Any]:
    """Return the figures of one kind of traffic."""
    late_s = max((record.late_s for record in records), default=0.0)
    return {"late_s": late_s, **asdict(tally([(record, slo) for record in records]))}


def main(arguments: Sequence[str]) -> int:
    """Measure; the figures go to the folder as they come."""
    grammar = parser()
    options = grammar.parse_args(arguments)
    for part, needed in _RATES_FROM.items():
        if part in options.parts and not needed <= set(options.parts):
            named = " and ".join(sorted(needed))
            grammar.error(f"--parts {part} takes its rates from {named}: name that as well")
    options.out.mkdir(parents=True, exist_ok=True)
    try:
        asyncio.run(measured(options))
    except EngineEndedError as error:
        print(f"an engine ended before it was Ready, with these words:\n{error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
