"""The matrix is whole: each scenario has a name of its own and something that undoes it."""

import re

import pytest

from e2e.faults.catalogue import SCENARIOS, chosen
from e2e.faults.scenario import Family, Where
from e2e.faults.soak import candidates

WANTED = {
    "a node is lost": "node-lost",
    "spot capacity is reclaimed with notice": "spot-reclaimed",
    "the API server throttles": "api-throttles",
    "the operator is killed between two writes": "killed-between-writes",
    "the operator is killed in mid scale-up": "killed-in-scale-up",
    "an edit comes in mid drain": "edit-in-mid-drain",
    "a pool is deleted in mid scale-up": "deleted-in-scale-up",
    "the load grows tenfold": "tenfold-step",
    "a decode pod hangs": "decode-core-stopped-85",
    "a NIXL peer is lost in mid transfer": "transfer-peer-lost",
    "a drain meets a disruption budget": "drain-against-budget",
    "the node of the only prefill pod is drained": "only-prefill-pod-drained",
    "both roles are rolled to a new KV revision": "new-kv-revision",
    "a pod is stuck Terminating": "stuck-terminating",
    "Prometheus lies plausibly": "prometheus-lies",
    "readers are slow beyond the socket buffers": "slow-readers",
    "clocks are skewed": "clock-skew",
    "prefill and decode are cut off from each other": "prefill-decode-cut-50",
    "only the side channel is cut": "side-channel-cut-50",
    "routers are deleted gracefully": "routers-deleted",
}


def test_forty_and_more_have_names_of_their_own_in_all_families():
    assert len({each.name for each in SCENARIOS}) == len(SCENARIOS) >= 40
    assert {each.family for each in SCENARIOS} == set(Family)


def test_what_peers_do_not_show_is_there():
    assert set(WANTED.values()) - {each.name for each in SCENARIOS} == set()


def test_the_short_form_has_a_scenario_of_every_family_and_ground():
    quick = [each for each in SCENARIOS if each.quick]

    assert {each.family for each in quick} == set(Family)
    assert {each.where for each in quick} == set(Where)


def test_each_says_in_a_sentence_what_is_done_and_undone():
    for each in SCENARIOS:
        assert each.what.endswith(".")
        assert each.undone.endswith(".")
        re.compile(each.names or "")


def test_scenarios_are_chosen_by_the_beginning_of_name_or_family():
    assert {each.name for each in chosen(["decode-core"])} == {
        f"decode-core-stopped-{seconds}" for seconds in (20, 40, 85)
    }
    assert {each.family for each in chosen(["metrics"])} == {Family.METRICS}
    with pytest.raises(ValueError, match="nonsense"):
        chosen(["nonsense"])


def test_a_soak_draws_on_many_faults_that_are_over_within_a_minute():
    assert len(candidates()) >= 12
