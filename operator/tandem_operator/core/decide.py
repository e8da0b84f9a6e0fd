"""One tick: observation and memory in, decision and memory out. Pure, total, deterministic."""

from tandem_operator.core.action import act, grant, tell, want
from tandem_operator.core.assessment import Assessment, foresee, observe, size, study
from tandem_operator.core.decision import Decision
from tandem_operator.core.memory import Memory
from tandem_operator.core.observation import Observation
from tandem_operator.core.quota.share import Quota
from tandem_operator.core.role import Role
from tandem_operator.core.schedules import NOTHING_CALLED, called
from tandem_operator.core.spec import PoolSpec
from tandem_operator.core.tuning.tuning import TUNING, Tuning


def decide(
    spec: PoolSpec,
    observation: Observation,
    memory: Memory,
    now_s: float,
    *,
    quota: Quota | None = None,
    tuning: Tuning = TUNING,
) -> tuple[Decision, Memory]:
    """Return the replica counts of one pool at `now_s` with reasons, and the next memory.

    `quota` is the quota that the pool shares with others, if there is one. `tuning` holds the
    numbers that change decisions.
    """
    seen = observe(observation, memory, now_s, tuning=tuning)
    hours = NOTHING_CALLED
    if spec.periods:
        hours = called(
            spec,
            asked={role: seen.fleets[role].asked or 0 for role in Role},
            lead_s=seen.slowest_lead_s(tuning=tuning),
            early_s=memory.early_s,
            now_s=now_s,
        )
        spec = hours.raised(spec)
    taught = study(spec, seen, memory, tuning=tuning)
    ahead = foresee(seen, memory, tuning=tuning)
    sized = size(spec, seen, taught, ahead, memory, tuning=tuning)
    known = Assessment(seen, taught, ahead, sized)
    wanted = want(spec, known, memory, called=hours, tuning=tuning)
    granted = grant(wanted, known, memory, quota, tuning=tuning)
    done = act(wanted, granted, known, memory, tuning=tuning)
    return tell(wanted, granted, done, known, tuning=tuning), Memory(
        at_s=now_s,
        learned=taught.learned,
        starts=seen.starts,
        track=ahead.track,
        correction=sized.correction,
        past=done.past,
        floors=wanted.floors,
        outputs=taught.outputs,
        overhead_s=sized.overhead_s,
        crest=granted.crest,
        pace=sized.pace,
        relieved=done.relief.roles,
        promise=wanted.promise,
        rest=wanted.rest,
        early_s=hours.early_s,
    )
