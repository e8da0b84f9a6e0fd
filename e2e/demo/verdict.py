"""The verdict on a demo: it says plainly whether the demo showed what it is there to show."""

from collections.abc import Iterator
from dataclasses import dataclass

from e2e.demo.story import PhaseRun, Story
from tandem_operator.core.role import Role

# In the sentence of a growth that is an insurance.
INSURED = "requests would be late with 1 replica fewer"


@dataclass(frozen=True, slots=True)
class Finding:
    """One expected sight, and whether it was seen."""

    shown: bool
    sentence: str


def judge(story: Story) -> tuple[Finding, ...]:
    """Check every phase: its own role grew for its own reason and was of use; no other grew."""
    return tuple(finding for run in story.runs for finding in _judge_phase(run, story=story))


def _judge_phase(run: PhaseRun, *, story: Story) -> Iterator[Finding]:
    name = run.phase.name
    for role in Role:
        extent = run.extent(role)
        if role is not run.phase.grows:
            yield _judge_other(run, role=role)
            continue
        if not extent.grew:
            yield Finding(False, f"{name}: {role} stayed at {extent.start}, it should have grown")
            continue
        yield Finding(True, f"{name}: {role} grew from {extent.start} to {extent.max}")
        yield _judge_cause(run, role=role)
        ready = run.most_ready(role)
        yield Finding(
            ready > extent.start,
            f"{name}: {ready} {role} pods were Ready before the phase ended",
        )
    if run.phase.lasting:
        lasted_s = run.ended_s - run.started_s
        yield Finding(
            lasted_s >= 2.0 * story.cold_start_s,
            f"{name}: lasted {lasted_s:.0f} s, a cold start took {story.cold_start_s:.0f} s",
        )
    failed = run.tally.failed
    yield Finding(failed == 0, f"{name}: {failed} of {run.tally.requests} requests failed")


def _judge_other(run: PhaseRun, *, role: Role) -> Finding:
    """Judge the role that has enough; it may still be insured against an earlier burst."""
    extent = run.extent(role)
    if not extent.grew:
        return Finding(True, f"{run.phase.name}: {role} did not grow")
    growths = run.growths(role)
    insured = bool(growths) and all(INSURED in change.sentence for change in growths)
    word = "grew against bursts of before" if insured else "grew although it should not have"
    return Finding(insured, f"{run.phase.name}: {role} {word} ({extent.start} to {extent.max})")


def _judge_cause(run: PhaseRun, *, role: Role) -> Finding:
    grown = run.growths(role)
    named = [change for change in grown if str(run.phase.objective) in change.sentence]
    return Finding(
        bool(grown) and len(named) == len(grown),
        f"{run.phase.name}: {len(named)} of {len(grown)} growths of {role} name "
        f"{run.phase.objective} as their cause",
    )
