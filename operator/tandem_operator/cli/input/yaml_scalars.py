"""YAML whose plain words have the meaning that kubectl gives them; PyYAML reads them differently.

kubectl takes `y` for true, `1e3` and `0o17` for numbers, and a date and `10:30` for text, as
`resolve.go` of sigs.k8s.io/yaml's goyaml.v2 has it.
"""

import re

import yaml

_TAG = "tag:yaml.org,2002:"
NULL, MERGE = f"{_TAG}null", f"{_TAG}merge"
_BOOL, _INT, _FLOAT = f"{_TAG}bool", f"{_TAG}int", f"{_TAG}float"
_TRUE = frozenset({"y", "yes", "true", "on"})
_FALSE = frozenset({"n", "no", "false", "off"})
_LARGEST = 2**64
_LEAST_WITH_EXPONENT = 1e21
"""The least whole number with an exponent: Go writes smaller ones with all their digits."""
_NUMBER_STARTS = "+-0123456789"


class KubectlLoader(yaml.SafeLoader):
    """A loader that composes and constructs as kubectl does."""


def _any_case(words: frozenset[str]) -> str:
    return "|".join(form for word in sorted(words) for form in _forms(word))


def _forms(word: str) -> tuple[str, ...]:
    return (word, word.capitalize(), word.upper())


_PLAIN = (
    (_BOOL, rf"^(?:{_any_case(_TRUE | _FALSE)})$", "yYtToOnNfF"),
    (
        _INT,
        r"^[-+]?(?:0[bB][01_]+|0[xX][0-9a-fA-F_]+|0[oO]?[0-7_]+|0|[1-9][0-9_]*)$",
        _NUMBER_STARTS,
    ),
    (
        _FLOAT,
        r"^(?:[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
        f"{_NUMBER_STARTS}.",
    ),
    (NULL, r"^(?:~|null|Null|NULL|)$", ("~", "n", "N", "")),
    (MERGE, r"^(?:<<)$", "<"),
)
KubectlLoader.yaml_implicit_resolvers = {}
for _tag, _pattern, _starts in _PLAIN:
    KubectlLoader.add_implicit_resolver(_tag, re.compile(_pattern), list(_starts))


def _truth(_: KubectlLoader, node: yaml.ScalarNode) -> bool:
    word = node.value.lower()
    if word in _TRUE | _FALSE:
        return word in _TRUE
    raise _unreadable(node, "true or false")


def _whole(loader: KubectlLoader, node: yaml.ScalarNode) -> int | float:
    text = node.value.replace("_", "")
    octal = re.fullmatch(r"[-+]?0[0-7]+", text)
    try:
        found = int(text, 8 if octal else 0)
    except ValueError:
        return _fraction(loader, node)
    return found if -_LARGEST < found < _LARGEST else _fraction(loader, node)


def _fraction(_: KubectlLoader, node: yaml.ScalarNode) -> int | float:
    text = node.value.replace("_", "").lower()
    try:
        found = float(re.sub(r"\.(inf|nan)", r"\1", text))
    except ValueError:
        raise _unreadable(node, "a number") from None
    # kubectl sends 1.0 and 1e3 as 1 and 1000.
    return int(found) if found.is_integer() and abs(found) < _LEAST_WITH_EXPONENT else found


def _unreadable(node: yaml.ScalarNode, kind: str) -> yaml.constructor.ConstructorError:
    problem = f"cannot read {node.value!r} as {kind}"
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


KubectlLoader.add_constructor(_BOOL, _truth)
KubectlLoader.add_constructor(_INT, _whole)
KubectlLoader.add_constructor(_FLOAT, _fraction)
