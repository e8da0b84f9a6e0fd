"""`tandem top` shows pools in a table or as JSON, and says why it shows none."""

import json
from typing import Any

import pytest

from tandem_operator.cli.output.pool_row import RowOrder, Urgency, in_order, row_of
from tandem_operator.cli.units import age
from tests.unit.cli.files import failed, sentence, tandem
from tests.unit.cli.saved import AT, STATUS, condition, pool

FINE = [condition(kind, "True", "AsIs", "It is so.") for kind in ("Ready", "Available", "SLOMet")]
DOWN = [condition("Ready", "False", "Starting", "Pods start."), *FINE[1:]]
USED = {"current": 3, "ready": 2, "desired": 3, "capacity": "24", "utilization": "75.0%"}
FIGURES = {
    "prefillCapacityRequestsPerSecond": 24.0,
    "prefillUtilizationRatio": 0.75,
    "attainmentRatio": 0.912,
    "errorBudgetRemainingRatio": -0.76,
    "gpus": 4,
}


def called(name: str, namespace: str = "team", **status: Any) -> dict[str, Any]:
    made = pool(**{"conditions": FINE, **status})
    return {**made, "metadata": {**made["metadata"], "name": name, "namespace": namespace}}


def words_of(output: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("│")] for line in output.splitlines()]


def test_a_row_has_each_figure_beside_its_bound(cluster):
    cluster.pool = pool(conditions=FINE, prefill=USED, figures=FIGURES)

    result = tandem("top")

    assert result.exit_code == 0, result.output
    [row] = [cells for cells in words_of(result.stdout) if cells[0] == "chat" and len(cells) > 2]
    assert row == [
        *("chat", "Ready", "2/3/4", "1/1/3", "512ms", "300ms+50ms/k", "-", "20ms"),
        *("91.2%", "95%", "-76%", "18.0", "4"),
    ]


def test_below_the_figures_stands_the_last_decision_of_each_pool(cluster):
    cluster.listed = [called("a"), called("b", decision=None)]

    lines = tandem("top", "-A").stdout.splitlines()

    told = lines[lines.index("last decisions") + 1 :]
    assert told[0].startswith("team/a  ")
    assert "ago  prefill 2 -> 3: TTFT p95 was 0.51 s" in told[0]
    assert told[1].split(maxsplit=2)[2].rstrip() == "no decision yet"


def test_wide_has_more_columns_and_every_condition_that_is_bad(cluster):
    cluster.pool = pool(cost={"perHour": "9.96 USD"})

    narrow, wide = tandem("top").stdout, tandem("top", "-o", "wide").stdout

    assert "CapacityBlocked +1" in narrow
    assert "CapacityBlocked, not SLOMet" in wide
    assert "router_queue" in wide
    assert "9.96 USD" in wide
    assert "router_queue" not in narrow


def test_json_has_every_figure_of_every_pool(cluster):
    cluster.pool = pool(conditions=FINE, prefill=USED, figures=FIGURES)

    found = json.loads(tandem("top", "-o", "json").stdout)

    [row] = found["pools"]
    assert row["fleets"]["prefill"] == {
        **{"ready": 2, "current": 3, "wanted": 3, "most": 4, "used": "75.0%"}
    }
    assert row["slo"]["ttft_s"] == 0.3
    assert row["requests_per_s"] == 18.0
    assert row["blame"] == STATUS["slo"]["blame"]
    assert row["decision_age_s"] > 0
    assert row["sentence"] == STATUS["decision"]["reason"]


def test_what_is_unknown_is_not_zero():
    bare = {key: value for key, value in pool().items() if key != "status"}

    row = row_of(bare)

    assert row.state == ("Unseen",)
    assert (row.requests_per_s, row.gpus, row.attainment, row.decided_s) == (None,) * 4
    assert row.fleets["prefill"].most == 4


def test_a_pool_whose_spec_is_refused_is_shown_without_its_bounds():
    broken = pool(conditions=DOWN)
    broken["spec"]["slo"] = {"ttft": "soon"}

    row = row_of(broken)

    assert row.slo is None
    assert row.state == ("not Ready",)
    assert row.urgency is Urgency.DOWN
    assert row.attainment == "91.2%"


@pytest.mark.parametrize("status", [{"slo": 7}, {"decision": {"time": AT}}, {"conditions": [1]}])
def test_a_status_that_cannot_be_read_is_named_and_hides_no_other_pool(cluster, status):
    cluster.listed = [called("a", **status), called("b")]

    rows = {cells[0]: cells for cells in words_of(tandem("top").stdout) if len(cells) > 2}

    assert rows["a"][1] == "Unreadable"
    assert rows["b"][1] == "Ready"


def test_gpus_are_those_held_and_none_on_cpu():
    on_gpus, on_cpu = pool(figures=FIGURES), pool(figures=FIGURES)
    on_cpu["spec"]["engine"] = {"device": "CPU"}

    assert row_of(on_gpus).gpus == 4
    assert row_of(on_cpu).gpus is None


def test_a_load_that_only_decode_knows_is_shown():
    known = {"decodeCapacityRequestsPerSecond": 10.0, "decodeUtilizationRatio": 1.2}

    assert row_of(pool(figures=known)).requests_per_s == 12.0


@pytest.mark.parametrize(
    ("order", "names"),
    [
        (RowOrder.NAME, ["a", "b", "c"]),
        (RowOrder.STATE, ["c", "a", "b"]),
        (RowOrder.ATTAINMENT, ["b", "a", "c"]),
        (RowOrder.BUDGET, ["b", "a", "c"]),
        (RowOrder.REQUESTS, ["b", "a", "c"]),
    ],
)
def test_the_worst_or_the_highest_comes_first_and_the_unknown_last(order, names):
    worse = {"attainmentRatio": 0.8, "errorBudgetRemainingRatio": -1.2}
    more = {"prefillUtilizationRatio": 0.9}
    rows = [
        called("a", figures=FIGURES),
        called("b", figures={**FIGURES, **worse, **more}),
        called("c", conditions=DOWN),
    ]

    assert [row.name for row in in_order([row_of(each) for each in rows], order)] == names


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        ((), {"chat-a", "chat-b", "code"}),
        (("chat-*",), {"chat-a", "chat-b"}),
        (("code", "team/chat-b"), {"code", "chat-b"}),
        (("other/*",), set()),
    ],
)
def test_names_and_patterns_choose_pools(cluster, patterns, names):
    cluster.listed = [called("chat-a"), called("chat-b"), called("code")]

    found = json.loads(tandem("top", *patterns, "-A", "-o", "json").stdout)["pools"]

    assert {row["name"] for row in found} == names


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "There is no InferencePool in namespace team; -A looks into all namespaces."),
        (("-A",), "There is no InferencePool in any namespace."),
        (("a", "b*", "-A"), "There is no InferencePool named a or b* in any namespace."),
    ],
)
def test_no_pools_is_a_sentence_and_no_failure(cluster, words, told):
    cluster.pool = None

    result = tandem("top", *words)

    assert (result.exit_code, result.stdout.strip()) == (0, told)


@pytest.mark.parametrize(
    ("refused", "words", "told"),
    [
        ((404, "404 page not found"), (), "does not know InferencePools of tandem-inference.io"),
        ((403, "no"), (), "you may not list InferencePools in namespace team; ask for the role"),
        ((403, "no"), ("-A",), "you may not list InferencePools of all namespaces; name one"),
        ((500, "etcd is gone"), (), "the API server refused: etcd is gone"),
    ],
)
def test_what_keeps_it_from_looking_is_one_sentence(cluster, refused, words, told):
    cluster.list_refused = refused

    assert told in failed(tandem("top", *words))


def test_without_a_cluster_it_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))

    assert "no cluster to ask" in failed(tandem("top"))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("-A", "-n", "team"), "-A and -n exclude each other"),
        (("--interval", "0.1"), "--interval must be at least 0.5s; got 0.1"),
        (("--interval", "often"), "--interval must be a duration such as"),
    ],
)
def test_options_that_make_no_sense_are_told(words, told):
    assert told in sentence(tandem("top", *words))


def test_text_of_others_cannot_move_the_cursor(cluster):
    foul = "\x1b[2J\x1b]0;owned\x07\nteam/b  3m ago"
    decision = {**STATUS["decision"], "reason": foul}
    bad = condition(f"Odd{foul}"[:60], "True", "x", "y")
    cluster.listed = [
        called("a", decision=decision, slo={"attainment": foul}, conditions=[bad, *FINE])
    ]

    for form in ("table", "wide", "json"):
        shown = tandem("top", "-A", "-o", form).stdout

        assert "\x1b" not in shown
        assert "\x07" not in shown
        assert not [line for line in shown.splitlines() if line.startswith("team/b")]


@pytest.mark.parametrize(
    ("value_s", "told"),
    [(-3.0, "0s"), (59.9, "59s"), (119, "119s"), (120, "2m"), (7200, "2h"), (200_000, "2d")],
)
def test_an_age_is_told_in_its_largest_unit(value_s, told):
    assert age(value_s) == told


def test_what_an_api_server_refuses_cannot_move_the_cursor(cluster):
    cluster.list_refused = (500, "\x1b[2Jgone\nall is well")

    told = failed(tandem("top"))

    assert told == "tandem top: the API server refused: \\x1b[2Jgone\\nall is well"
