"""A vLLM plugin that lets NIXL's progress thread pause between polls.

nixl 1.5.1 hard-codes a pause of 0 in its Python API, so each idle engine uses a whole CPU core.
vLLM calls `install` in every process before it makes an agent. Without the variable nothing
changes.
"""

import os
from typing import Any


def install() -> None:
    """Make every NIXL agent of this process start with the pause that the environment gives."""
    pause_us = int(os.environ.get("TANDEM_NIXL_PROGRESS_DELAY_US", "0"))
    if pause_us <= 0:
        return
    # Only engines have NIXL.
    from nixl import _api  # type: ignore[import-not-found]  # noqa: PLC0415

    if isinstance(_api.nixlBind, _Bindings):
        return
    _api.nixlBind = _Bindings(_api.nixlBind, pause_us)


class _Bindings:
    """NIXL's bindings, with an agent configuration that keeps our pause."""

    def __init__(self, bindings: Any, pause_us: int) -> None:
        class AgentConfig(bindings.nixlAgentConfig):  # type: ignore[misc]
            def __setattr__(self, name: str, value: Any) -> None:
                super().__setattr__(name, pause_us if name == "pthrDelay" else value)

        self._bindings = bindings
        self.nixlAgentConfig = AgentConfig

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bindings, name)
