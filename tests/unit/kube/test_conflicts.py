import pytest

from tandem_operator.kube.conflicts import (
    Conflict,
    describe,
    forcible,
    owners_of,
    parse_conflicts,
)
from tandem_operator.kube.events import NOTE_LIMIT_BYTES, shortened

OURS = ("spec.template", "spec.replicas")


def cause(field, message):
    return {"reason": "FieldManagerConflict", "field": field, "message": message}


def test_names_the_manager_and_the_field_of_each_conflict():
    status = {
        "reason": "Conflict",
        "details": {
            "causes": [
                cause(
                    ".spec.replicas", 'conflict with "kubectl" with subresource "scale" using v1'
                ),
                cause(
                    '.spec.template.spec.containers[name="engine"].image', 'conflict with "argo"'
                ),
            ]
        },
    }

    assert parse_conflicts(status) == (
        Conflict(field="spec.replicas", manager="kubectl"),
        Conflict(field='spec.template.spec.containers[name="engine"].image', manager="argo"),
    )


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"reason": "Conflict", "message": "the object has been modified"},
        {"details": {"causes": [{"reason": "FieldValueInvalid", "field": "spec.x"}]}},
        {"details": {"causes": None}},
    ],
)
def test_other_refusals_are_no_field_conflict(status):
    assert parse_conflicts(status) == ()


@pytest.mark.parametrize(
    ("fields", "ours"),
    [
        (["spec.replicas"], True),
        (['spec.template.spec.containers[name="engine"].image'], True),
        (["spec.template.spec.nodeName", "spec.replicas"], True),
        (["spec.strategy.type"], False),
        (["spec.template.spec.nodeName", "metadata.labels.team"], False),
        (["spec.templateX"], False),
        ([], False),
    ],
)
def test_only_fields_that_are_all_ours_by_contract_may_be_forced(fields, ours):
    conflicts = [Conflict(field=field, manager="x") for field in fields]

    assert forcible(conflicts, prefixes=OURS) is ours


def test_a_long_list_of_conflicts_is_shortened():
    text = describe([Conflict(field=f"f{n}", manager="m") for n in range(9)])

    assert text.endswith("f4 (by m) and 4 more")


def test_owners_of_a_field_are_read_from_managed_fields():
    observed = {
        "metadata": {
            "managedFields": [
                {"manager": "tandem", "fieldsV1": {"f:spec": {"f:template": {}}}},
                {"manager": "hpa", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
                {"manager": "odd"},
            ]
        }
    }

    assert owners_of(observed, ("spec", "replicas")) == {"hpa"}
    assert owners_of({"metadata": {}}, ("spec", "replicas")) == set()


def test_a_note_is_cut_between_characters():
    cut = shortened("ü" * NOTE_LIMIT_BYTES)

    assert len(cut.encode()) <= NOTE_LIMIT_BYTES
    assert cut.endswith("ü...")
    assert shortened("short") == "short"
