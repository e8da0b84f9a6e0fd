"""The steps of an assessment know of each other: a pod that left explains fewer hits."""

from dataclasses import replace

import pytest

from tandem_operator.core.assessment import foresee, observe, size, study
from tandem_operator.core.learn.correction import Correction, see_ready
from tandem_operator.core.memory import Memory
from tandem_operator.core.observation import StartUp
from tandem_operator.core.role import Role
from tests.unit.core import scene
from tests.unit.core.scene import NOW_S, arrival, ended, make_spec, report

MEASURED = {
    Role.PREFILL: StartUp(prefill=((32.0, 0.02), (1024.0, 0.2))),
    Role.DECODE: StartUp(steps=((1.0, 0.01), (64.0, 0.07))),
}
PROMPT, HIT, RATE = 1000, 800, 4


def prefill_work_s(before: int) -> float:
    """Return the work of a request after ten seconds without hits; `before`: pods until then."""
    rows = [
        replace(
            arrival(NOW_S - 180 + at, RATE, PROMPT), cached_tokens=RATE * HIT if at < 170 else 0
        )
        for at in range(180)
    ]
    seen = scene.observe(
        routers=[report(arrivals=rows, finished=[ended(NOW_S - 5, 100, output_tokens=5000)])]
    )
    seen = replace(
        seen, engines=tuple(replace(each, start_up=MEASURED[each.role]) for each in seen.engines)
    )
    correction = see_ready(Correction(), {Role.PREFILL: before, Role.DECODE: 1}, NOW_S - 100.0)
    correction = see_ready(correction, {Role.PREFILL: 1, Role.DECODE: 1}, NOW_S - 10.0)
    memory = Memory(at_s=NOW_S - 5.0, correction=correction)

    looked = observe(seen, memory, NOW_S)
    taught, ahead = study(make_spec(), looked, memory), foresee(looked, memory)
    situation = size(make_spec(), looked, taught, ahead, memory).situation

    assert situation is not None
    return situation.busy[Role.PREFILL]


def test_hits_that_end_with_a_pod_that_left_are_no_more_work_for_good() -> None:
    assert prefill_work_s(before=2) == pytest.approx(0.06, abs=0.01)


def test_hits_that_end_at_the_same_pods_are_more_work_at_once() -> None:
    assert prefill_work_s(before=1) > 0.15
