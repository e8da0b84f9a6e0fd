"""A demo that went as it should, made up, for tests to spoil."""

import random

import pytest

from benchmarks.load.record import Outcome, Record
from e2e.demo.calibrate import Speed
from e2e.demo.phases import PHASES
from e2e.demo.story import Change, Fleet, PhaseRun, Seconds, Sight, Story
from tandem_operator.core.role import Role
from tandem_operator.core.slo import Slo

START_S = 1_800_000_000.0
COLD_START_S = 45.0
SLO = Slo(ttft_s=0.6, ttft_s_per_thousand_prompt_tokens=0.1, tpot_s=0.02, attainment=0.95)


SPEED = Speed(prefill_tokens_per_s=7000.0, step_fixed_s=0.006, step_per_stream_s=0.0005)


def _records(phase, *, start_s, end_s):
    rng = random.Random(phase.name)
    count = int((end_s - start_s) * phase.rate_rps(SPEED, slo=SLO))
    return tuple(
        Record(
            request_id=f"demo-{phase.name}-{number:05d}",
            traffic=phase.name,
            sent_s=start_s + (end_s - start_s) * number / count,
            late_s=0.0,
            elapsed_s=1.0,
            prompt_tokens=phase.prompt_tokens.draw(rng),
            output_tokens=phase.output_tokens.draw(rng),
            outcome=Outcome.FINISHED,
            ttft_s=rng.lognormvariate(-1.2, 0.5),
            tpot_s=rng.lognormvariate(-4.3, 0.3),
        )
        for number in range(count)
    )


def _fleets(counts):
    return {role: Fleet(desired=asked, ready=ready) for role, (asked, ready) in counts.items()}


@pytest.fixture
def story():
    counts = dict.fromkeys(Role, 1)
    runs = []
    at_s = START_S
    for phase in PHASES:
        end_s = at_s + phase.duration_s(cold_start_s=COLD_START_S)
        sights = [Sight(at_s, _fleets({role: (n, n) for role, n in counts.items()}), "steady")]
        changes = []
        if phase.grows is not None:
            role, before = phase.grows, counts[phase.grows]
            counts[role] = before + 1
            sentence = f"{role} {before} -> {before + 1}: {phase.objective} p95 is over its bound."
            changes = [Change(at_s + 20, role, before, before + 1, sentence)]
            ready = {other: (n, n) for other, n in counts.items()}
            sights += [
                Sight(at_s + 20, _fleets({**ready, role: (before + 1, before)}), sentence),
                Sight(at_s + 70, _fleets(ready), sentence),
            ]
        traffic = phase.traffic(SPEED, slo=SLO, cold_start_s=COLD_START_S)
        runs.append(
            PhaseRun(
                phase=phase,
                traffic=traffic,
                first_rps=traffic.rate_rps,
                slo=SLO,
                started_s=at_s,
                ended_s=end_s,
                records=_records(phase, start_s=at_s, end_s=end_s),
                sights=tuple(sights),
                changes=tuple(changes),
            )
        )
        at_s = end_s
    return Story(
        seconds=Seconds(
            cluster=12.0, images=3.0, install=20.0, ready=50.0, first_answer=86.0, total=470.0
        ),
        slo=SLO,
        cold_start_s=COLD_START_S,
        answer="hello",
        runs=tuple(runs),
    )
