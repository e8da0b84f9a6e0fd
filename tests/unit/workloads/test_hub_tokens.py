"""The Secrets that a pool may name for its token of the Hub."""

from dataclasses import replace

from tandem_operator.workloads.pass_plan import plan
from tests.unit.workloads.cluster import INSTALLATION, NOW_S, pool, world

LISTED = replace(INSTALLATION, hub_token_secrets=("hub", "hf-token"))


def told(installation, secret):
    """Return the condition `Accepted` of a pool that names a Secret, and the pool's children."""
    source = {"huggingFace": {"repo": "acme/tiny", "tokenSecretRef": {"name": secret}}}
    stored = pool()
    stored["spec"]["model"]["source"] = source
    planned = plan(world(stored, installation=installation), now_s=NOW_S)
    [accepted] = [each for each in planned.status["conditions"] if each["type"] == "Accepted"]
    return accepted, planned.children


def test_with_a_list_another_secret_is_refused_and_the_sentence_offers_what_is_on_it():
    accepted, children = told(LISTED, "deployer-token")

    assert (accepted["status"], accepted["reason"]) == ("False", "InvalidSpec")
    assert "tokenSecretRef.name must be a Secret that the operator" in accepted["message"]
    assert "write hf-token or hub" in accepted["message"]
    assert children == ()


def test_with_a_list_what_stands_on_it_is_taken():
    accepted, children = told(LISTED, "hf-token")

    assert accepted["status"] == "True"
    assert children


def test_without_a_list_any_secret_is_taken():
    accepted, _ = told(INSTALLATION, "deployer-token")

    assert accepted["status"] == "True"
