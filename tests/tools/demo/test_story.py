import json
import re
from dataclasses import replace

from e2e.demo.phases import PHASES
from e2e.demo.report import render
from e2e.demo.story import Fleet, Sight, changes_in, fill_in, summarize
from e2e.demo.verdict import Finding, judge
from tandem_operator.core.role import Role


def test_the_summary_has_exactly_the_documented_form(story):
    summary = summarize(story)

    assert set(summary) == {"seconds", "slo", "phases"}
    assert set(summary["seconds"]) == {"cluster", "images", "install", "ready", "total"}
    assert summary["slo"] == {"ttft_s": 0.6, "tpot_s": 0.02, "attainment": 0.95}
    assert [phase["name"] for phase in summary["phases"]] == [phase.name for phase in PHASES]
    for phase in summary["phases"]:
        assert set(phase) == {
            *("name", "requests", "good", "failed", "shed", "attainment"),
            *("ttft_p50_s", "ttft_p95_s", "tpot_p50_s", "tpot_p95_s"),
            *("prefill", "decode", "late_by_cause", "decisions"),
        }
        assert set(phase["prefill"]) == set(phase["decode"]) == {"start", "max", "end"}
    assert summary["phases"][1]["prefill"] == {"start": 1, "max": 2, "end": 2}
    assert summary["phases"][1]["decisions"] == [
        "prefill 1 -> 2: TTFT p95 is over its bound.",
    ]
    json.dumps(summary, allow_nan=False)


def test_a_phase_in_which_nothing_ended_has_unknown_figures(story):
    [empty] = fill_in(story.runs[:1], records=(), sights=story.runs[0].sights)

    assert empty.tally.attainment is None
    assert empty.tally.ttft_p95_s is None


def test_filling_in_a_whole_demo_gives_its_phases_back(story):
    runs = fill_in(
        [replace(run, records=(), sights=(), changes=()) for run in story.runs],
        records=[record for run in story.runs for record in run.records],
        sights=[sight for run in story.runs for sight in run.sights],
    )

    assert runs == story.runs


def test_the_report_opens_without_a_network_and_shows_every_decision(story):
    page = render(story, findings=judge(story))

    assert not re.search(r"""(src|href)\s*=|url\(|@import|https?://""", page)
    for run in story.runs:
        for change in run.changes:
            assert change.sentence.replace(">", "&gt;") in page
    assert page.count("<svg") == 4
    for name in ("router queue", "decode admission", "decode step"):
        assert f"<th>{name}</th>" in page
    assert page.count("<circle class=") == 2 * sum(len(run.records) for run in story.runs)


GROWTH = (
    "prefill 1 -> 2: predicted TTFT p95 is 0.81 s (bound 0.52 s) at 4 requests/s; 1 more replica "
    "brings TTFT p95 to 0.31 s; decode stays at 1: TPOT is expected within 25 ms"
)


def seen(at_s, prefill, sentence):
    return Sight(at_s, {Role.PREFILL: Fleet(prefill, 1), Role.DECODE: Fleet(1, 1)}, sentence)


def test_a_change_has_its_own_roles_part_of_the_sentence_even_if_that_was_seen_later():
    sights = [seen(0.0, 1, "none yet"), seen(1.0, 2, "none yet"), seen(3.0, 2, GROWTH)]

    [change] = changes_in(sights)

    assert (change.role, change.before, change.after, change.at_s) == (Role.PREFILL, 1, 2, 1.0)
    assert change.sentence.startswith("prefill 1 -> 2: predicted TTFT p95")
    assert change.sentence.endswith("brings TTFT p95 to 0.31 s")


def test_a_change_that_the_pool_never_explained_is_said_to_be_unexplained():
    [change] = changes_in([seen(0.0, 1, GROWTH), seen(50.0, 3, GROWTH)])

    assert change.sentence == "prefill 1 -> 3: no explanation was seen on the pool"


def test_the_report_shows_a_request_whose_tokens_came_all_at_once(story):
    run = story.runs[0]
    at_once = replace(run.records[0], tpot_s=0.0)
    spoiled = replace(
        story, runs=(replace(run, records=(at_once, *run.records[1:])), *story.runs[1:])
    )

    assert "Time per output token" in render(spoiled, findings=[])


def test_the_report_shows_a_decision_that_looks_like_html_as_text(story):
    run = story.runs[1]
    change = replace(run.changes[0], sentence="<i>1 & 2</i>")
    spoiled = replace(story, runs=(story.runs[0], replace(run, changes=(change,))))

    page = render(spoiled, findings=[Finding(shown=True, sentence="<b>seen</b>")])

    assert "<i>1" not in page
    assert page.count("&lt;i&gt;1 &amp; 2&lt;/i&gt;") == 2
    assert "&lt;b&gt;seen&lt;/b&gt;" in page
