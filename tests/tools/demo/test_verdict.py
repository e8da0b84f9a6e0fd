from dataclasses import replace

from benchmarks.load.record import Outcome
from e2e.demo.story import Change, Fleet
from e2e.demo.verdict import INSURED, judge
from tandem_operator.core.explain.sentences import held_for
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.role_targets import Bursts


def spoil(story, name, **changes):
    return replace(
        story,
        runs=tuple(
            replace(run, **changes) if run.phase.name == name else run for run in story.runs
        ),
    )


def run_of(story, name):
    return next(run for run in story.runs if run.phase.name == name)


def unseen(story):
    return [finding.sentence for finding in judge(story) if not finding.shown]


def test_a_demo_in_which_each_role_grew_for_its_own_reason_is_accepted(story):
    assert unseen(story) == []


def test_growth_without_its_own_objective_as_cause_is_not_accepted(story):
    [change] = run_of(story, "prefill-heavy").changes
    wrong = replace(change, sentence="prefill 1 -> 2: TPOT p95 is over its bound.")

    [sentence] = unseen(spoil(story, "prefill-heavy", changes=(wrong,)))

    assert sentence.startswith("prefill-heavy: 0 of 1 growths of prefill name TTFT")


def test_growth_of_the_other_role_is_not_accepted(story):
    run = run_of(story, "prefill-heavy")
    last = run.sights[-1]
    grown = replace(last, fleets={**last.fleets, Role.DECODE: Fleet(desired=2, ready=1)})

    [sentence] = unseen(spoil(story, "prefill-heavy", sights=(*run.sights, grown)))

    assert sentence == "prefill-heavy: decode grew although it should not have (1 to 2)"


def test_growth_of_the_other_role_against_a_burst_of_before_is_accepted(story):
    run = run_of(story, "slo-tightened")
    last = run.sights[-1]
    more = {**last.fleets, Role.PREFILL: Fleet(desired=3, ready=2)}
    held = (
        "prefill 2 -> 3: a burst arrived; 18 % of its requests would be late with 1 replica fewer"
    )
    insured = Change(run.started_s + 30, Role.PREFILL, 2, 3, held)
    spoilt = {"sights": (*run.sights, replace(last, fleets=more))}

    [sentence] = unseen(spoil(story, "slo-tightened", **spoilt))
    accepted = unseen(spoil(story, "slo-tightened", **spoilt, changes=(*run.changes, insured)))

    assert sentence == "slo-tightened: prefill grew although it should not have (2 to 3)"
    assert accepted == []


def test_the_sentence_of_an_insurance_is_the_one_that_the_operator_writes():
    assert INSURED in held_for(
        Bursts(rate_rps=3.0, times=1, span_s=240.0, late_share=0.2), Role.PREFILL
    )


def test_a_pod_that_was_asked_for_but_never_ready_is_not_accepted(story):
    run = run_of(story, "decode-heavy")

    [sentence] = unseen(spoil(story, "decode-heavy", sights=run.sights[:-1]))

    assert sentence == "decode-heavy: 1 decode pods were Ready before the phase ended"


def test_no_growth_at_all_is_not_accepted(story):
    run = run_of(story, "slo-tightened")

    [sentence] = unseen(spoil(story, "slo-tightened", sights=run.sights[:1], changes=()))

    assert sentence == "slo-tightened: decode stayed at 2, it should have grown"


def test_a_phase_shorter_than_two_cold_starts_is_not_accepted(story):
    sentences = unseen(replace(story, cold_start_s=80.0))

    assert len(sentences) == 3
    assert all("a cold start took 80 s" in sentence for sentence in sentences)


def test_a_failed_request_is_named(story):
    run = run_of(story, "light")
    records = (replace(run.records[0], outcome=Outcome.FAILED), *run.records[1:])

    [sentence] = unseen(spoil(story, "light", records=records))

    assert sentence == f"light: 1 of {len(records)} requests failed"


def test_shrinking_is_no_growth(story):
    run = run_of(story, "decode-heavy")
    shrink = Change(run.started_s + 5, Role.PREFILL, 2, 1, "prefill 2 -> 1: spare capacity.")

    assert unseen(spoil(story, "decode-heavy", changes=(*run.changes, shrink))) == []
