"""The operator writes only status that the schema declares: nothing is pruned."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tandem_operator.api import ConditionType, PoolStatus, parse_status
from tandem_operator.api.structural import structural_schema


def admitted(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Return the values that a structural schema admits and the API server would not prune."""
    if "properties" in schema:
        fields = {name: admitted(child) for name, child in schema["properties"].items()}
        required = {name: fields.pop(name) for name in schema.get("required", ())}
        return st.fixed_dictionaries(required, optional=fields)
    match schema["type"]:
        case "object":
            values = admitted(schema["additionalProperties"])
            return st.dictionaries(st.text(), values, max_size=min(3, schema["maxProperties"]))
        case "array":
            keys = schema.get("x-kubernetes-list-map-keys")
            return st.lists(
                admitted(schema["items"]),
                max_size=min(3, schema["maxItems"]),
                unique_by=keys and (lambda item: tuple(item[key] for key in keys)),
            )
        case "string":
            return st.text(max_size=min(9, schema["maxLength"]))
        case "number":
            return st.floats(0, 1e6)
        case kind:
            assert kind == "integer"
            return st.integers()


@given(admitted(structural_schema(PoolStatus)))
def test_every_declared_field_is_read_and_written_as_it_was(status: dict[str, Any]) -> None:
    told = {
        name: value for name, value in status.items() if (name, value) != ("observedGeneration", -1)
    }

    assert parse_status({"status": status}).to_object() == told


def test_a_pool_that_no_operator_saw_has_no_observed_generation() -> None:
    assert parse_status({"status": {"observedGeneration": -1}}) == PoolStatus()


def test_decision_uses_the_words_of_the_api() -> None:
    written = {"decision": {"time": "2026-01-01T00:00:00Z", "prefill": {"from": 1, "to": 2}}}
    written["decision"]["reason"] = "because"

    assert parse_status({"status": written}).to_object() == written


def test_missing_status_is_empty() -> None:
    assert parse_status({}) == PoolStatus()


def test_conditions_are_found_by_type() -> None:
    ready = {
        "type": "Ready",
        "status": "True",
        "observedGeneration": 2,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "reason": "Serving",
        "message": "",
    }
    status = parse_status({"status": {"conditions": [ready]}})

    found = status.condition(ConditionType.READY)
    assert found is not None
    assert found.observed_generation == 2
    assert status.condition(ConditionType.SLO_MET) is None
