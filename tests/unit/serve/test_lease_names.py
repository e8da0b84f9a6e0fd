"""A lease is freed once, whichever comes first: its request or the message that it is unwanted."""

import importlib
from typing import Any

import pytest

from tandem_engine.serve.engine_command import PLUGINS

KEPT_S = 30.0


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(PLUGINS))
    return importlib.import_module("tandem_lease_names").Names(kept_s=KEPT_S)


def test_what_came_is_found_by_its_name(names: Any) -> None:
    assert names.came("one", "request-1", now=0.0)

    assert names.let_go("one", now=1.0) == "request-1"


def test_what_was_let_go_before_it_came_is_not_wanted(names: Any) -> None:
    assert names.let_go("one", now=0.0) is None

    assert not names.came("one", "request-1", now=1.0)


def test_a_name_says_nothing_of_another(names: Any) -> None:
    names.let_go("one", now=0.0)

    assert names.came("two", "request-2", now=1.0)


def test_what_came_is_wanted_when_it_comes_again(names: Any) -> None:
    names.came("one", "request-1", now=0.0)

    assert names.came("one", "request-1", now=1.0)


def test_names_are_forgotten_in_the_end(names: Any) -> None:
    for second in range(1000):
        names.came(f"name-{second}", "request", now=float(second))

    assert names.let_go("name-0", now=1000.0) is None
    assert names.let_go("name-999", now=1000.0) == "request"
    assert len(names._entries) <= KEPT_S + 2
