"""Plain words of a manifest are what `kubectl patch --local -o json` of 1.34 makes of them."""

import pytest
import yaml

from tandem_operator.cli.input.yaml_scalars import KubectlLoader


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("y", True),
        ("N", False),
        ("yes", True),
        ("Off", False),
        ("tRue", "tRue"),
        ("1e3", 1000),
        ("1.0", 1),
        ("1.5", 1.5),
        (".5", 0.5),
        ("089", 89),
        ("0o17", 15),
        ("017", 15),
        ("0x1F", 31),
        ("-0b11", -3),
        ("1_000", 1000),
        ("+5", 5),
        ("10:30", "10:30"),
        ("2026-11-27", "2026-11-27"),
        ("=", "="),
        ("~", None),
        ("99999999999999999999", 10**20),
        ("1e5x", "1e5x"),
    ],
)
def test_a_plain_word_is_what_kubectl_sends(text, value):
    found = yaml.load(f"a: {text}", Loader=KubectlLoader)["a"]

    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("text", ["!!int abc", "!!bool maybe", "!!float x"])
def test_a_word_that_is_not_of_its_tag_is_named_with_its_line(text):
    with pytest.raises(yaml.constructor.ConstructorError, match=r"cannot read '[a-z]+' as") as told:
        yaml.load(f"b: 1\na: {text}", Loader=KubectlLoader)

    assert told.value.problem_mark.line == 1
