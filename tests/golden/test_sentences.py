"""A user's sentences, one by one, in one file that a reviewer can read.

After an intended change: `pytest tests/golden/test_sentences.py --snapshot-update`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from tandem_operator.core.role import Role
from tests.golden import decision_sentences, error_sentences, pool_sentences

FILE = Path(__file__).with_name("sentences.txt")
RENEW = "pytest tests/golden/test_sentences.py --snapshot-update"
MOST_WORDS = 25
BANNED = (
    "anew",
    "comes all at once",
    "everybody",
    "may do",
    "nobody",
    "one leaves",
    "one replica less",
    "somebody",
    "who",
    "whoever",
    "whom",
    "without a word",
    "without end",
)

# A sentence may begin with what it is about: a role, a field or a program.
NAMES = frozenset(
    {
        "amount",
        "attainment",
        "background",
        "conversation",
        "decode",
        "image",
        "input",
        "key",
        "logprobs",
        "messages",
        "model",
        "n",
        "name",
        "path",
        "size",
        "uri",
        "quantization",
        "pod",
        "port",
        "prefill",
        "priority",
        "prompt",
        "repo",
        "revision",
        "routers",
        "slo",
        "stream",
        "surprise",
        "tools",
        "watermarking",
    }
)


def of_roles(render: Callable[[Role], Iterable[str]]) -> Callable[[], Iterator[str]]:
    """Return the sentences of both roles."""
    return lambda: (sentence for role in Role for sentence in render(role))


HEADINGS: Mapping[str, Callable[[], Iterable[str]]] = {
    "Decisions: a role grows for its load": of_roles(decision_sentences.growth),
    "Decisions: a role changes for another cause": of_roles(decision_sentences.orders),
    "Decisions: a role shrinks": of_roles(decision_sentences.shrinking),
    "Decisions: a role stays": of_roles(decision_sentences.rest),
    "Decisions: Tandem does not act": pool_sentences.decisions_of_modes,
    "Events: routers": decision_sentences.routers,
    "Events: others": pool_sentences.events,
    "Conditions: type, status and reason | message": pool_sentences.conditions,
    "Conditions of PoolRoles": pool_sentences.conditions_of_pool_roles,
    "Troubles of pods": pool_sentences.troubles,
    "Refusals: the operator, of a spec": pool_sentences.objections_to_specs,
    "Refusals: Kubernetes, of a pod template": pool_sentences.mistyped_templates,
    "Refusals: rules of the CRD": error_sentences.rules,
    "Refusals: the reader of manifests": error_sentences.pools,
    "Refusals: the router, of a request": error_sentences.requests,
    "Refusals: the launcher": error_sentences.launches,
    "Failures of engines": error_sentences.failures,
}
RENDERED = {heading: list(dict.fromkeys(render())) for heading, render in HEADINGS.items()}
ALL = [sentence for sentences in RENDERED.values() for sentence in sentences]


def test_the_file_holds_every_sentence(request: pytest.FixtureRequest) -> None:
    text = "\n".join("\n".join((f"## {name}", *said, "")) for name, said in RENDERED.items())
    if request.config.getoption("update_snapshots"):
        FILE.write_text(text)

    assert FILE.read_text() == text, f"a sentence changed; if that was intended: {RENEW}"


def test_no_sentence_is_longer_than_a_reader_likes() -> None:
    parts = [part for sentence in ALL for part in re.split(r"[.;] ", _message(sentence))]

    assert [part for part in parts if _words(part) > MOST_WORDS] == []


def test_no_sentence_has_a_private_word() -> None:
    banned = re.compile(rf"\b({'|'.join(BANNED)})\b", re.IGNORECASE)

    assert [sentence for sentence in ALL if banned.search(_message(sentence))] == []


def test_a_sentence_begins_with_a_capital_or_with_a_name() -> None:
    messages = [_message(sentence) for sentence in ALL]
    lower = [
        (message, message.split(maxsplit=1)[0]) for message in messages if message[0].islower()
    ]

    assert [message for message, first in lower if not _is_name(first)] == []


def _message(sentence: str) -> str:
    return sentence.rpartition(" | ")[2]


def _words(text: str) -> int:
    # A list of options is none: only what is read as a word counts.
    words = [word for word in text.split() if not word.lstrip("(").startswith("-")]
    return sum(any(map(str.isalnum, word)) for word in words)


def _is_name(word: str) -> bool:
    return word.rstrip(",") in NAMES or re.search(r"[A-Z_.:-]", word) is not None
