"""Made-up evidence: a run in which all is well, to be spoilt in one way at a time."""

from dataclasses import replace
from typing import Any

from e2e.faults.evidence import Evidence, Fate, Moment, Request, Said
from e2e.faults.scenario import Family, Scenario, Where
from tandem_operator.core.role import Role


def scenario(**changes: Any) -> Scenario:
    made = Scenario(
        name="pod-deleted",
        family=Family.ENGINES,
        where=Where.KIND,
        what="A pod is deleted.",
        undone="Another is made.",
        play=lambda stage: evidence(),
    )
    return replace(made, **changes)


def request(**changes: Any) -> Request:
    made = Request(name="r-1", sent_s=99.0, ended_s=104.0, fate=Fate.FINISHED, began=True)
    return replace(made, **changes)


def moment(at_s: float = 100.0, **changes: Any) -> Moment:
    made = Moment(at_s=at_s, asked=dict.fromkeys(Role, 2), gpus=4, blind=False, whole=True)
    return replace(made, **changes)


def evidence(**changes: Any) -> Evidence:
    made = Evidence(
        requests=(request(),),
        moments=(moment(99.0), moment(101.0), moment(110.0)),
        said=(Said(102.0, "Ready=False: pod tiny-decode-x makes no token"),),
        fault_s=100.0,
        dealt_s=100.5,
        undone_s=100.5,
        budget=5,
    )
    return replace(made, **changes)
