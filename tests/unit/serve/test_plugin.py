"""The pause in NIXL's progress thread, with a NIXL that only records its configuration."""

import sys
from importlib.metadata import distributions
from types import ModuleType
from typing import Any

import pytest

from tandem_engine.serve.engine_command import PLUGINS, PROGRESS_DELAY_ENV


class AgentConfig:
    pthrDelay = -1  # noqa: N815
    lthrDelay = -1  # noqa: N815


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Any:
    bindings = ModuleType("bindings")
    bindings.nixlAgentConfig = AgentConfig  # type: ignore[attr-defined]
    bindings.DRAM_SEG = 1  # type: ignore[attr-defined]
    api = ModuleType("nixl._api")
    api.nixlBind = bindings  # type: ignore[attr-defined]
    package = ModuleType("nixl")
    package._api = api  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "nixl", package)
    monkeypatch.setitem(sys.modules, "nixl._api", api)
    monkeypatch.syspath_prepend(str(PLUGINS))
    return api


def agent_config(api: Any) -> Any:
    # What nixl's own code does before it makes an agent.
    config = api.nixlBind.nixlAgentConfig()
    config.pthrDelay = 0
    config.lthrDelay = 100000
    return config


def install() -> None:
    (entry,) = (
        entry
        for found in distributions(path=[str(PLUGINS)])
        for entry in found.entry_points
        if entry.group == "vllm.general_plugins"
    )
    entry.load()()


def test_agents_pause_as_long_as_the_environment_says(
    api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PROGRESS_DELAY_ENV, "1000")

    install()
    install()

    assert agent_config(api).pthrDelay == 1000
    assert agent_config(api).lthrDelay == 100000
    assert api.nixlBind.DRAM_SEG == 1


def test_nothing_changes_where_no_pause_is_asked_for(
    api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(PROGRESS_DELAY_ENV, raising=False)

    install()

    assert agent_config(api).pthrDelay == 0
