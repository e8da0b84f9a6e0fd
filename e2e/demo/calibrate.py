"""The speed of one pod of each role on this machine, so that the load fits the machine.

A rate that overloads one pod here would not be noticed on a faster machine, and would drown a
slower one. A few seconds of load tell what one pod can do inside the SLO; the phases ask for a
multiple of it.
"""

import statistics
from dataclasses import dataclass

from benchmarks.load.generator import LoadGenerator
from benchmarks.load.plan import Lengths, PlannedRequest, Traffic, plan_requests
from benchmarks.load.record import Outcome, Record

ROUNDS = 2
PREFILL_AT_ONCE = 8
FEW, MANY = 4, 32
DECODE_TOKENS = 96


class TooSlowError(Exception):
    """One pod cannot keep the SLO here even for a single request."""


@dataclass(frozen=True, slots=True)
class Speed:
    """The speed of one pod of each role.

    Attributes:
        prefill_tokens_per_s: prompt tokens, several prompts waiting.
        step_fixed_s, step_per_stream_s: a decode step with b streams takes fixed + per_stream x b.
    """

    prefill_tokens_per_s: float
    step_fixed_s: float
    step_per_stream_s: float

    def decode_tokens_per_s(self, *, tpot_s: float) -> float:
        """Return the output tokens per second of one pod whose steps take `tpot_s`."""
        streams = (tpot_s - self.step_fixed_s) / self.step_per_stream_s
        if streams < 1.0:
            alone_s = self.step_fixed_s + self.step_per_stream_s
            raise TooSlowError(
                f"a decode step takes {1000 * alone_s:.0f} ms on this machine and the sample asks "
                f"for {1000 * tpot_s:.0f} ms; write a larger spec.slo.tpot.target into the sample"
            )
        return streams / tpot_s


async def measure_speed(
    *, prefill: LoadGenerator, decode: LoadGenerator, prompt_tokens: Lengths
) -> Speed:
    """Measure one Ready pod of each role, each reached directly and under no other load."""
    rates, few, many = [], [], []
    for number in range(ROUNDS):
        prompts = _burst(f"prefill-{number}", PREFILL_AT_ONCE, prompt=prompt_tokens, output=1)
        records = await _run(prefill, prompts)
        span_s = max(r.ended_s for r in records) - min(r.sent_s for r in records)
        rates.append(sum(r.prompt_tokens for r in records) / span_s)
        few.append(await _step_s(decode, streams=FEW, number=number))
        many.append(await _step_s(decode, streams=MANY, number=number))
    few_s, many_s = statistics.median(few), statistics.median(many)
    per_stream_s = max((many_s - few_s) / (MANY - FEW), 0.01 * few_s)
    return Speed(
        prefill_tokens_per_s=statistics.median(rates),
        step_fixed_s=max(few_s - FEW * per_stream_s, 0.0),
        step_per_stream_s=per_stream_s,
    )


async def _step_s(decode: LoadGenerator, *, streams: int, number: int) -> float:
    burst = _burst(
        f"decode-{streams}-{number}", streams, prompt=Lengths(32, 64), output=DECODE_TOKENS
    )
    records = await _run(decode, burst)
    return statistics.median(record.tpot_s for record in records if record.tpot_s is not None)


def _burst(name: str, count: int, *, prompt: Lengths, output: int) -> list[PlannedRequest]:
    """Return so many requests at the same moment."""
    traffic = Traffic(
        name=name,
        rate_rps=10.0 * count,
        duration_s=3600.0,
        prompt_tokens=prompt,
        output_tokens=Lengths(output, output),
    )
    plan = plan_requests(traffic, seed=1, run="calibrate")
    return [
        PlannedRequest(one.request_id, 0.0, one.prompt_token_ids, one.output_tokens)
        for one, _ in zip(plan, range(count), strict=False)
    ]


async def _run(generator: LoadGenerator, burst: list[PlannedRequest]) -> list[Record]:
    records = await generator.run(burst, traffic="calibrate")
    failed = [record.why for record in records if record.outcome is not Outcome.FINISHED]
    if failed:
        raise TooSlowError(f"the pool does not serve its first load: {failed[0]}")
    return records
