"""Strategic merge of pod templates."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tandem_operator.workloads.builders.merge import merged, overridden

SCALARS = st.one_of(st.booleans(), st.integers(0, 9), st.text("abc", max_size=3))
NAMES = st.sampled_from(["engine", "sidecar", "tmp", "model"])
FIELDS = st.sampled_from(
    ["spec", "metadata", "labels", "containers", "env", "volumes", "ports", "args", "resources"]
)


def _bodies(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def deeper(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        named = st.builds(
            lambda body, name: body | {"name": name},
            st.dictionaries(FIELDS, children, max_size=3),
            NAMES,
        )
        return st.one_of(
            st.dictionaries(FIELDS, children, max_size=4),
            st.lists(children, max_size=3),
            st.lists(named, max_size=3, unique_by=lambda item: item["name"]),
        )

    return st.recursive(leaves, deeper, max_leaves=12)


# A user may write anything, nulls included; Tandem's own fields are never null.
TEMPLATES = _bodies(st.one_of(SCALARS, st.none()))
OWN = _bodies(SCALARS)


def contains(body: Any, own: Any) -> bool:
    """Return whether `body` says everything that `own` says."""
    if isinstance(own, dict):
        return isinstance(body, dict) and all(
            name in body and contains(body[name], value) for name, value in own.items()
        )
    if isinstance(own, list) and isinstance(body, list):
        return all(any(contains(item, wanted) for item in body) for wanted in own)
    return bool(body == own)


@given(TEMPLATES, OWN)
def test_own_fields_win_over_any_template(template: Any, own: Any) -> None:
    assert contains(merged(template, own), own)


@given(TEMPLATES, OWN)
def test_merging_twice_is_merging_once(template: Any, own: Any) -> None:
    once = merged(template, own)

    assert merged(once, own) == once


@given(TEMPLATES, OWN)
def test_a_merged_template_has_nothing_left_to_override(template: Any, own: Any) -> None:
    assert overridden(merged(template, own), own) == ()


@given(OWN)
def test_a_template_that_says_what_is_ours_overrides_nothing(own: Any) -> None:
    assert overridden(own, own) == ()
    assert merged(own, own) == own


def test_containers_merge_by_name_and_keep_their_order() -> None:
    under = {"containers": [{"name": "engine", "image": "a", "tty": True}]}
    over = {"containers": [{"name": "logs", "image": "l"}, {"name": "engine", "image": "b"}]}

    assert merged(under, over) == {
        "containers": [
            {"name": "engine", "image": "b", "tty": True},
            {"name": "logs", "image": "l"},
        ]
    }


def test_an_environment_variable_is_replaced_whole() -> None:
    under = {"env": [{"name": "POD_IP", "value": "1.2.3.4"}, {"name": "MINE", "value": "x"}]}
    over = {"env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]}

    env = merged(under, over)["env"]

    assert env == [over["env"][0], {"name": "MINE", "value": "x"}]


def test_a_port_of_two_protocols_is_two_ports() -> None:
    over = {"ports": [{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP"}]}
    own = {"ports": [{"containerPort": 53, "protocol": "TCP", "name": "dns"}]}

    assert merged({}, over) == over
    assert merged(over, own)["ports"] == [*own["ports"], over["ports"][1]]
    assert overridden(over, own) == ("ports[53]",)


def test_a_null_takes_a_default_away() -> None:
    assert merged({"a": 1, "b": {"c": 2}}, {"b": None}) == {"a": 1}


def test_a_list_without_keys_is_replaced() -> None:
    assert merged({"tolerations": [{"key": "a"}]}, {"tolerations": []}) == {"tolerations": []}


def test_overridden_fields_are_named_by_their_path() -> None:
    template = {
        "metadata": {"labels": {"role": "mine", "team": "search"}},
        "spec": {
            "containers": [
                {
                    "name": "engine",
                    "args": ["--x"],
                    "env": [{"name": "POD_IP", "value": "0"}, {"name": "A", "value": "1"}],
                    "ports": "none",
                },
            ]
        },
    }
    own = {
        "metadata": {"labels": {"role": "prefill"}},
        "spec": {
            "containers": [
                {
                    "name": "engine",
                    "args": ["--y"],
                    "env": [{"name": "POD_IP", "valueFrom": {}}],
                    "ports": [{"containerPort": 8000}],
                }
            ]
        },
    }

    assert overridden(template, own) == (
        "metadata.labels.role",
        "spec.containers[engine].args",
        "spec.containers[engine].env[POD_IP]",
        "spec.containers[engine].ports",
    )
