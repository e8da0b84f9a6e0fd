"""A live pool answers what files leave open: its spec, its traffic, its engines."""

import json
import random

import pytest

from tests.unit.cli.fake_cluster import page
from tests.unit.cli.files import POOL, PROFILE, SHORT, failed, sentence, tandem, write
from tests.unit.cli.saved import learned_memory, memory

pytestmark = pytest.mark.simulates


@pytest.fixture
def live(cluster, add_router, now_s):
    """A pool that served two requests a second for two minutes."""
    draw = random.Random(1)
    rows = [
        [now_s - draw.uniform(0.0, 120.0), draw.randint(500, 2000), 0, 100, True, ""]
        for _ in range(240)
    ]
    add_router("chat-router-0", page(*rows, now_s=now_s, complete_since_s=now_s - 120.0))
    cluster.memory = learned_memory()
    return cluster


@pytest.fixture
def edited(tmp_path):
    return write(tmp_path, "new.yaml", POOL.replace("target: 20ms", "target: 12ms"))


def told(*words):
    result = tandem(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout), result.stderr


def test_a_diff_needs_nothing_but_the_pool_and_the_new_manifest(live, edited):
    found, _ = told("diff", "--pool", "chat", edited, "--seeds", "1")

    assert found["edits"] == ["slo.tpot.target: 20ms -> 12ms"]
    assert (found["old"]["file"], found["new"]["file"]) == ("team/chat", edited)
    for side in ("old", "new"):
        assert found[side]["traffic"]["requests"] == 240
        assert found[side]["profile"] == "team/chat, learned"
        assert found[side]["cold_start_s"] == 54.5
    assert any("only the last 2m" in note for note in found["notes"])
    assert any("learned profile: KV cache of a replica: 600,000" in n for n in found["notes"])


def test_defaults_that_the_api_server_wrote_down_are_no_edits(live, edited):
    live.pool = {**live.pool, "spec": {**live.pool["spec"], "networkPolicies": "Managed"}}

    found, _ = told("diff", "--pool", "chat", edited, "--seeds", "1")

    assert found["edits"] == ["slo.tpot.target: 20ms -> 12ms"]


def test_a_simulation_of_a_live_pool_is_of_its_own_spec_and_traffic(live):
    found, shown = told("simulate", "--pool", "chat")

    assert found["pool"] == "chat"
    assert found["traffic"] == {**found["traffic"], "requests": 240, "name": "chat, last 20m"}
    assert "pool chat: TTFT 300ms + 50ms per 1,000 prompt tokens" in shown


def test_the_tenants_of_a_live_pool_are_those_of_its_routers(cluster, add_router, now_s, tmp_path):
    rows = [[now_s - 110.0 + number / 2, 1000, 0, 100, True, ""] for number in range(200)]
    names = ["search" if number % 4 else "other" for number in range(200)]
    recorded = page(*rows, now_s=now_s, complete_since_s=now_s - 120.0, row_tenants=names)
    add_router("chat-router-0", recorded)
    cluster.memory = learned_memory()
    limits = "{requestsPerMinute: 10, named: [{name: search, requestsPerMinute: 30}]}"
    limited = write(
        tmp_path, "new.yaml", POOL.replace("  slo:\n", f"  router: {{tenants: {limits}}}\n  slo:\n")
    )

    found, _ = told("diff", "--pool", "chat", limited, "--seeds", "1")

    old, new = (found[side]["tenants"] for side in ("old", "new"))
    assert {name: each["requests"] for name, each in new.items()} == {"other": 50, "search": 150}
    assert old["search"]["limited"] == 0
    # A minute's worth at once, and as many again in a hundred seconds.
    assert new["search"]["limited"] == pytest.approx(150 - 80, abs=2)
    assert new["other"]["limited"] == 0
    assert any("tell tenants apart that the pool does not name" in note for note in found["notes"])


def test_a_plan_of_a_live_pool_is_of_its_own_spec_and_traffic(live):
    found, _ = told("plan", "--pool", "chat", "--seeds", "1")

    assert (found["pool"], found["traffic"]["requests"]) == ("chat", 240)


def test_the_traffic_of_a_live_pool_can_be_doubled(live):
    found, _ = told("simulate", "--pool", "chat", "--rate-scale", "2")

    assert found["traffic"]["requests"] == 480


def test_a_part_of_its_past_can_be_asked_for(live):
    found, _ = told("simulate", "--pool", "chat", "--span", "1m")

    assert 80 < found["traffic"]["requests"] < 160


def test_what_is_named_goes_before_what_the_pool_has(live, edited):
    found, _ = told("simulate", "--pool", "chat", "-f", edited, *PROFILE, *SHORT)

    assert found["slo"]["tpot_s"] == 0.012
    assert found["profile"] == "h200-llama-3.1-8b-fp8"
    assert found["traffic"]["name"] == "poisson 12/s"
    # Its routers are not asked for traffic that the command does not need.
    assert live.forwarded == []


def test_a_pool_that_learned_nothing_needs_a_profile_named(live):
    live.memory = memory()

    assert "team/chat has not learned yet" in failed(tandem("simulate", "--pool", "chat"))
    assert tandem("simulate", "--pool", "chat", *PROFILE).exit_code == 0


def test_a_live_pool_whose_spec_makes_no_sense_is_told_in_a_sentence(live):
    live.pool = {**live.pool, "spec": {**live.pool["spec"], "slo": {"attainment": "120%"}}}

    said = sentence(tandem("simulate", "--pool", "chat"))

    assert "slo.attainment" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("simulate", *PROFILE, *SHORT), "name a manifest with -f pool.yaml, or a live pool"),
        (("simulate", "-n", "team", *SHORT), "--namespace says where --pool is; add --pool NAME"),
        (("simulate", "--pool", "chat", "--format", "azure"), "--format is for --trace; leave it"),
        (("simulate", "--pool", "chat", "--rate", "3"), "leave it out with --pool; --rate-scale 2"),
        (("simulate", "--pool", "chat", "--rate-scale", "0"), "--rate-scale must be above 0"),
        (("simulate", "--pool", "chat", "--rate-scale", "1e9"), "more than 1,000,000 requests"),
        (("simulate", "--pool", "chat", "--span", "2h"), "--span must be at most 20m"),
        (("diff", "a.yaml"), "or a live pool to compare one with, such as `tandem diff --pool"),
        (("diff", "a.yaml", "b.yaml", "c.yaml"), "two manifests can be compared, not 3"),
    ],
)
def test_questions_that_make_no_sense_are_refused(live, words, said):
    assert said in sentence(tandem(*words))
