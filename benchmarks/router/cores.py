"""The cores of the measured process alone, and those that both ends of the load share."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True, slots=True)
class Cores:
    """Two sets of cores that are apart where there are two cores."""

    measured: set[int]
    load: set[int]

    @classmethod
    def of(cls, available: set[int]) -> Self:
        """Return the first core for the measured process, the others for the load."""
        first, *others = sorted(available)
        return cls({first}, set(others) or {first})

    @classmethod
    def here(cls) -> Self:
        """Divide the cores that this process may use."""
        return cls.of(os.sched_getaffinity(0))


def on_cores(cores: set[int], command: Sequence[str | Path]) -> list[str | Path]:
    """Return the command, kept to some cores."""
    return ["taskset", "--cpu-list", ",".join(map(str, sorted(cores))), *command]
