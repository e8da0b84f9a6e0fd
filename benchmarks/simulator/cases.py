"""The cases of both simulators: static fleets on traces of the replay's suite."""

from dataclasses import dataclass

from benchmarks.replay.recipes import RECIPES, Recipe

# Where the replay's own timing is sampled: between these points ours draws straight lines.
PROMPTS = (64, 128, *range(256, 8192, 256), *range(8192, 131_073, 4096))
CONTEXTS = (128, 512, 1024, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 32768, 65536, 131072)
BATCHES = (
    *(1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 18, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128),
    *(160, 192, 256),
)


@dataclass(frozen=True, slots=True)
class Case:
    """A trace of the suite, on its engines, with the fleets to compare."""

    name: str
    fleets: tuple[tuple[int, int], ...]

    @property
    def recipe(self) -> Recipe:
        """Return the recipe of the trace: how it is made, and its SLO and timing in a replay."""
        return RECIPES[self.name]


CASES = (
    Case("A", ((4, 3), (5, 3), (6, 4))),
    Case("A4", ((4, 2), (5, 3))),
    Case("B", ((3, 3), (4, 4), (4, 5), (5, 5))),
    Case("mooncake", ((4, 1), (5, 1), (6, 2), (12, 4))),
)


def table_name(timing: str) -> str:
    """Return the model of the table that holds a timing of the replay."""
    return f"Meta-Llama-3.1-8B-{timing}"
