"""Open-loop traffic on one role at a time, and on a pair behind the router."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.engines.engine import Pair
from benchmarks.engines.timing import Step
from benchmarks.load.generator import LoadGenerator
from benchmarks.load.plan import Lengths, Traffic, plan_requests
from benchmarks.load.record import Record
from benchmarks.priors.fit import least_relative_error
from benchmarks.router.targets import started_router
from tandem_engine.serve.measure import PrefillTime
from tandem_operator.core.learn.least_squares import dot
from tandem_operator.core.slo import Slo
from tandem_operator.sim.engines.profile import Curve
from tandem_routing.decode_admission import TPOT_SHARE

BUSY_SHARES = (0.5, 0.8)
STREAMS = (16, 48)
PREFILL_PROMPTS = Lengths(200, 3000)
DECODE_PROMPTS = Lengths(64, 128)
DECODE_ANSWERS = Lengths(100, 300)
PAIR_PROMPTS, PAIR_ANSWERS = Lengths(200, 3000), Lengths(50, 150)
PAIR_RPS = 3.0
OVERLOAD, CALM = 1.5, 0.7
OVERLOAD_PROMPTS, OVERLOAD_ANSWERS = Lengths(32, 64), Lengths(400, 800)
WHOLE_SHARES = (0.1, 0.2, 0.3)
WHOLE_PROMPTS, WHOLE_ANSWERS = Lengths(1000, 6000), Lengths(2, 8)
SLO = Slo(ttft_s=1.0, ttft_s_per_thousand_prompt_tokens=0.0, tpot_s=0.05, attainment=0.95)


def prefill_traffic(found: Sequence[PrefillTime], *, duration_s: float) -> list[Traffic]:
    """Return requests for single tokens that keep the engine busy for each of `BUSY_SHARES`."""
    lengths = PREFILL_PROMPTS
    service_s = _mean_service_s(found, lengths)
    return [
        Traffic(f"prefill-{share:g}", share / service_s, duration_s, lengths, Lengths(1, 1))
        for share in BUSY_SHARES
    ]


def whole_traffic(found: Sequence[PrefillTime], *, duration_s: float) -> dict[float, Traffic]:
    """Return long prompts with short answers whose computing takes each of `WHOLE_SHARES`."""
    service_s = _mean_service_s(found, WHOLE_PROMPTS)
    lengths = (WHOLE_PROMPTS, WHOLE_ANSWERS)
    return {
        share: Traffic(f"whole-{share:g}", share / service_s, duration_s, *lengths)
        for share in WHOLE_SHARES
    }


def decode_traffic(found: Sequence[Step], *, duration_s: float) -> list[Traffic]:
    """Return short prompts, so many that about each of `STREAMS` runs."""
    shortest = min(step.context_tokens for step in found)
    by_batch = {step.batch: step.seconds for step in found if step.context_tokens == shortest}
    traffic = []
    for streams in STREAMS:
        nearest = min(by_batch, key=lambda batch: abs(batch - streams))
        stay_s = DECODE_ANSWERS.mean * by_batch[nearest]
        name, rate_rps = f"decode-{streams}", streams / stay_s
        traffic.append(Traffic(name, rate_rps, duration_s, DECODE_PROMPTS, DECODE_ANSWERS))
    return traffic


def pair_traffic(*, duration_s: float) -> Traffic:
    """Return light traffic of long prompts and answers."""
    return Traffic("pair", PAIR_RPS, duration_s, PAIR_PROMPTS, PAIR_ANSWERS)


@dataclass(frozen=True, slots=True)
class Overload:
    """More streams than keep a TPOT bound.

    Attributes:
        step_s: the seconds of a step: at least, per stream, and per KV token of its streams.
        streams: the number of streams that keep the bound.
    """

    step_s: tuple[float, float, float]
    streams: int
    kv_capacity_tokens: int
    max_num_seqs: int
    duration_s: float

    @property
    def traffic(self) -> Traffic:
        """Return `OVERLOAD` times the load that keeps so many streams running inside the bound."""
        return self._traffic("overload", OVERLOAD)

    @property
    def calm(self) -> Traffic:
        """Return `CALM` times that load."""
        return self._traffic("overload-calm", CALM)

    @property
    def slo(self) -> Slo:
        """Return a TPOT that so many streams keep, by the margin of the gate."""
        return replace(SLO, ttft_s=2.0, tpot_s=self._seconds(self.streams) / TPOT_SHARE)

    @property
    def pace(self) -> dict[str, object]:
        """Return what the operator would tell the router."""
        return {
            "step_s": self.step_s,
            "kv_capacity_tokens": self.kv_capacity_tokens,
            "max_num_seqs": self.max_num_seqs,
            "output_tokens": OVERLOAD_ANSWERS.mean,
        }

    def learned(self, tpot_s: float) -> "Overload":
        """Return the same where the calm traffic had this TPOT, as the operator learns it."""
        streams = self.calm.rate_rps * OVERLOAD_ANSWERS.mean * tpot_s
        slowdown = tpot_s / self._seconds(streams)
        least_s, per_stream_s, per_token_s = (slowdown * each for each in self.step_s)
        return replace(self, step_s=(least_s, per_stream_s, per_token_s))

    def _seconds(self, streams: float) -> float:
        context = OVERLOAD_PROMPTS.mean + 0.5 * OVERLOAD_ANSWERS.mean
        return dot(self.step_s, (1.0, streams, streams * context))

    def _traffic(self, name: str, share: float) -> Traffic:
        rate_rps = share * self.streams / (OVERLOAD_ANSWERS.mean * self._seconds(self.streams))
        return Traffic(name, rate_rps, self.duration_s, OVERLOAD_PROMPTS, OVERLOAD_ANSWERS)


def overload(
    found: Sequence[Step], *, kv_capacity_tokens: int, max_num_seqs: int, duration_s: float
) -> Overload:
    """Return too many streams for a bound that a quarter of the seats keep, by timed steps."""
    rows = [
        ((1.0, float(each.batch), float(each.batch * each.context_tokens)), each.seconds)
        for each in found
    ]
    return Overload(
        step_s=least_relative_error(rows),
        streams=max(1, max_num_seqs // 4),
        kv_capacity_tokens=kv_capacity_tokens,
        max_num_seqs=max_num_seqs,
        duration_s=duration_s,
    )


async def played(traffic: Traffic, *, url: str, model: str, file: Path) -> list[Record]:
    """Send it, and keep a record of each request."""
    async with LoadGenerator(url=url, model=model, record_path=file) as generator:
        plan = plan_requests(traffic, seed=1)
        return await generator.run(plan, traffic=traffic.name)


@contextmanager
def routed(
    pair: Pair,
    *,
    model: str,
    folder: Path,
    slo: Slo = SLO,
    pace: Mapping[str, object] | None = None,
) -> Iterator[str]:
    """Run the router in front of the pair as a process of its own; yield its address."""
    bounds = {"ttft_s": slo.ttft_s, "tpot_s": slo.tpot_s}
    with started_router(
        folder,
        settings={"pool": "measured", "models": [model], "slo": bounds, "decode": pace},
        ports={"prefill": (pair.prefill.port,), "decode": (pair.decode.port,)},
        cores=os.sched_getaffinity(0),
    ) as router:
        yield f"http://127.0.0.1:{router.port}"


def _mean_service_s(found: Sequence[PrefillTime], lengths: Lengths) -> float:
    curve = Curve(tuple((each.prompt_tokens, each.seconds) for each in found))
    every = range(lengths.low, lengths.high + 1)
    return sum(curve.at(tokens) for tokens in every) / len(every)
