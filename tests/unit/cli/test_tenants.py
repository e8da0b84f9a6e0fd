"""`simulate`, `plan` and `diff` show what tenants get, and what an edit of a limit does."""

import json
import re
from types import SimpleNamespace
from typing import cast

import pytest

from tandem_operator.cli.experiments.experiment import Run
from tandem_operator.cli.output.tenant_tables import MOST_SHOWN, shown_of, tenant_rows
from tandem_operator.sim.report import TenantOutcome
from tests.unit.cli.files import POOL, PROFILE, SHORT, sentence, tandem, write

pytestmark = pytest.mark.simulates

TENANTED = POOL.replace(
    "  slo:\n", "  router: {tenants: {named: [{name: search, weight: 2}]}}\n  slo:\n"
)


def test_each_tenant_has_a_row(tmp_path):
    out = tmp_path / "out.json"
    path = write(tmp_path, "tenanted.yaml", TENANTED)
    tenants = ("--tenant", "search=0.5", "--tenant", "support=0.25")

    result = tandem("simulate", "-f", path, *PROFILE, *SHORT, *tenants, "--json", str(out))

    assert result.exit_code == 0, result.output
    [one] = json.loads(out.read_text())["runs"]
    found = {name: each["requests"] / one["requests"] for name, each in one["tenants"].items()}
    assert found == pytest.approx({"search": 0.5, "support": 0.25, "": 0.25}, abs=0.1)
    rows = re.sub(" +", " ", result.stdout).partition("By tenant")[2].splitlines()
    shown = {name: one["tenants"][name] for name in ("search", "support")}
    for name, each in shown.items():
        kept = f"{100.0 * each['attainment']:.2f}%"
        start = f"{name} │ {each['requests']} │ {kept} │ 0 │ {each['output_tokens']:,} │"
        assert any(row.startswith(start) for row in rows)
    assert any(row.startswith("no tenant │") for row in rows)


LIMITED = TENANTED.replace("weight: 2}", "weight: 2, requestsPerMinute: 60}")


def test_a_limit_of_a_tenant_refuses_what_is_beyond_it(tmp_path):
    out = tmp_path / "out.json"
    path = write(tmp_path, "limited.yaml", LIMITED)

    result = tandem(
        *("simulate", "-f", path, *PROFILE, *SHORT, "--tenant", "search=0.5"),
        *("--policy", "clairvoyant", "--json", str(out)),
    )

    assert result.exit_code == 0, result.output
    [one] = json.loads(out.read_text())["runs"]
    search = one["tenants"]["search"]
    # A minute's worth at once, and as many again in a hundred seconds.
    assert search["requests"] - search["limited"] == pytest.approx(160, abs=3)
    assert one["limited"] == search["limited"] == search["refused"]
    assert "not simulated" not in result.stdout


def test_traffic_without_tenants_meets_no_limit_and_a_note_says_how_to_name_them(tmp_path):
    path = write(tmp_path, "limited.yaml", LIMITED)

    result = tandem("simulate", "-f", path, *PROFILE, *SHORT, "--policy", "static", "--json")

    told = json.loads(result.stdout)
    assert "limited" not in told["runs"][0]
    assert told["notes"] == [
        "The traffic names no tenant, so shares and limits of router.tenants are not simulated;"
        " name tenants with --tenant search=0.2."
    ]


def test_a_pool_without_tenants_takes_none(pool):
    result = tandem("simulate", "-f", pool, *PROFILE, *SHORT, "--tenant", "search=0.5")

    assert "the pool has no spec.router.tenants" in " ".join(sentence(result).split())


def by_tenant(output: str) -> list[str]:
    """Return the lines below the title of the table, with single spaces."""
    return re.sub(" +", " ", output).partition("By tenant")[2].splitlines()


@pytest.fixture
def diff(tmp_path):
    def diff(old, new, *words):
        paths = (write(tmp_path, "old.yaml", old), write(tmp_path, "new.yaml", new))
        return tandem("diff", *paths, *PROFILE, *SHORT, *words)

    return diff


def test_an_edit_of_a_limit_is_named_and_its_effect_is_shown(diff):
    result = diff(TENANTED, LIMITED, "--tenant", "search=0.5", "--seeds", "2")

    assert result.exit_code == 0, result.output
    assert "router.tenants.named.search.requestsPerMinute: not set -> 60" in result.stdout
    rows = by_tenant(result.stdout)
    [refused] = [row for row in rows if row.startswith("search: refused")]
    assert re.fullmatch(
        r"search: refused │ 0.00% │ 7\d.\d\d% │ \+7.* points │ \+7.* points", refused
    )
    assert any(row.startswith("no tenant: on time") for row in rows)
    # The others are refused nothing, so there is nothing to say of it.
    assert not any(row.startswith("no tenant: refused") for row in rows)


def test_the_comment_of_a_pull_request_has_each_tenant(diff):
    result = diff(TENANTED, LIMITED, "--tenant", "search=0.5", "--seeds", "1", "--markdown")

    lines = result.stdout.splitlines()
    assert any(line.startswith("| search: refused | 0.00% | 7") for line in lines)
    assert {line.count("|") for line in lines if line.startswith("|")} == {5}


def test_tenants_can_be_what_the_edit_adds(diff):
    result = diff(POOL, LIMITED, "--tenant", "search=0.5", "--seeds", "1", "--json")

    told = json.loads(result.stdout)
    assert told["old"]["limited"] == 0 < told["new"]["limited"]
    assert told["notes"] == [
        "old: The pool has no router.tenants, so all tenants are served alike."
    ]


def test_shares_of_tenants_that_neither_pool_has_are_refused(diff):
    result = diff(POOL, POOL, "--tenant", "search=0.5")

    assert "the pool has no spec.router.tenants" in " ".join(sentence(result).split())


def test_a_plan_shows_tenants_under_tandem_and_on_the_smallest_fleet(tmp_path):
    path, page = write(tmp_path, "limited.yaml", LIMITED), tmp_path / "plan.html"
    outputs = ("--json", str(tmp_path / "plan.json"), "--html", str(page))

    result = tandem(
        *("plan", "-f", path, *PROFILE, *SHORT, "--tenant", "search=0.5"), "--seeds", "1", *outputs
    )

    told = json.loads((tmp_path / "plan.json").read_text())
    fleet = told["cheapest"]["fleet"]
    of_search = (told[which]["tenants"]["search"] for which in ("cheapest", "tandem"))
    assert [each["refused"] > 0 for each in of_search] == [True, True]
    rows = by_tenant(result.stdout)
    for name in (fleet, "Tandem"):
        assert any(row.startswith(f"search, {name} │") for row in rows)
        assert f"<td>search, {name}</td>" in page.read_text()


def of_tenants(**requests: int) -> Run:
    tenants = {
        name: TenantOutcome(count, count // 2, 1, 2, 10 * count, ttft_p99_s=0.1)
        for name, count in requests.items()
    }
    return cast("Run", SimpleNamespace(report=SimpleNamespace(tenants=tenants)))


def test_of_many_tenants_the_smallest_share_a_row():
    names = [f"t{number:02d}" for number in range(MOST_SHOWN + 5)]
    run = of_tenants(**{name: 100 - number for number, name in enumerate(names)})

    rows = tenant_rows({"tandem": run})

    assert [row[0] for row in rows] == [*names[: MOST_SHOWN - 1], "6 others"]
    rest = [run.report.tenants[name] for name in names[MOST_SHOWN - 1 :]]
    requests, good = (sum(getattr(each, n) for each in rest) for n in ("requests", "good"))
    within = requests - len(rest)
    assert rows[-1][1:] == (
        *(f"{requests:,}", f"{100 * good / within:.2f}%", "12", f"{10 * requests:,}", "-"),
    )


def test_a_few_tenants_have_a_row_each_the_largest_first():
    run = of_tenants(**{f"t{number}": 1 + number for number in range(MOST_SHOWN)})

    assert [shown.label for shown in shown_of([run])] == [
        f"t{number}" for number in reversed(range(MOST_SHOWN))
    ]


def test_an_edit_of_a_weight_shows_who_gains_and_who_loses(diff):
    # One fleet of one each cannot carry both.
    narrow = TENANTED.replace("gpuBudget: 6", "gpuBudget: 2")
    light, heavy = (narrow.replace("weight: 2", f"weight: {weight}") for weight in (1, 9))
    shares = ("--tenant", "search=0.5", "--tenant", "support=0.5")

    result = diff(light, heavy, *shares, "--rate", "20", "--seeds", "1", "--json")

    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["edits"] == ["router.tenants.named.search.weight: 1 -> 9"]
    old, new = (told[side]["tenants"] for side in ("old", "new"))
    assert new["search"]["attainment"] > old["search"]["attainment"] + 0.1
    assert new["support"]["attainment"] < old["support"]["attainment"] - 0.1
