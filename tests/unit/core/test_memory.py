"""The stored form of a memory: small enough for a ConfigMap, and whole where it can be."""

import pytest

from tandem_operator.core.forecast.backtest import ERRORS_KEPT, Miss, Track
from tandem_operator.core.guard.guard import Past
from tandem_operator.core.guard.stabilization import RUNS_KEPT, Run, Wants
from tandem_operator.core.learn.measurements import Learned, LegStart, StepStart
from tandem_operator.core.memory import Memory
from tandem_operator.core.observe.fleet import KEPT_STARTS, Start, Starts
from tandem_operator.core.quota.demand_curve import Point
from tandem_operator.core.quota.share import Crest
from tandem_operator.core.role import Role
from tests.unit.core.scene import NOW_S

CONFIG_MAP_BYTES = 1024 * 1024
LONGEST_POD_NAME = 63
LONG = 1.0 / 3.0


def lived(*, prefill: int, decode: int, routers: int) -> Memory:
    """Everything a memory holds that grows with its pool, and the longest histories."""

    def pod(component: str, index: int) -> str:
        return f"{component}-{index:05d}".rjust(LONGEST_POD_NAME, "x")

    runs = tuple(Run(NOW_S + i + LONG, 1000 - i % 2) for i in range(RUNS_KEPT))
    wants = Wants(runs=runs, seen_s=NOW_S + LONG)
    rates = {f"expert-{i}": 100.0 + LONG for i in range(12)}
    each = {Role.PREFILL: 1000, Role.DECODE: 1000}
    return Memory(
        at_s=NOW_S,
        learned=Learned(
            legs={
                f"{pod('router', r)} {pod('prefill', p)}": LegStart(
                    NOW_S + LONG, 12345.0 + LONG, 123456, 123456789, 1.0e12 + LONG
                )
                for r in range(routers)
                for p in range(prefill)
            },
            steps={
                pod("decode", d): StepStart(
                    NOW_S + LONG, 12345.0 + LONG, 123456.0 + LONG, 654321.0 + LONG
                )
                for d in range(decode)
            },
        ),
        starts=Starts(
            {r: tuple(Start(pod(r, i), 20.0 + LONG) for i in range(KEPT_STARTS)) for r in Role}
        ),
        track=Track(
            misses=tuple(
                Miss(NOW_S + LONG, True, rates, 100.0 + LONG, LONG) for _ in range(2 * ERRORS_KEPT)
            )
        ),
        past={role: Past(wants, wants, wants) for role in Role},
        crest=Crest(NOW_S, tuple(Point(n, each, 100.0 + LONG) for n in range(prefill + decode))),
    )


@pytest.mark.parametrize(
    ("prefill", "decode", "routers"), [(500, 500, 10), (1000, 1000, 4), (1000, 1000, 32)]
)
def test_the_memory_of_the_largest_pool_fits_well_into_a_config_map(
    prefill: int, decode: int, routers: int
) -> None:
    memory = lived(prefill=prefill, decode=decode, routers=routers)

    assert len(memory.to_json()) < 0.6 * CONFIG_MAP_BYTES


def test_only_open_rows_of_a_very_large_fleet_are_left_out() -> None:
    memory = lived(prefill=1000, decode=1000, routers=32)

    stored = Memory.from_json(memory.to_json())

    assert stored.learned.legs == {}
    assert stored.learned.steps == memory.learned.steps
    assert stored.track == memory.track
    assert stored.crest == memory.crest


def test_the_memory_of_a_hundred_pods_is_stored_whole() -> None:
    memory = lived(prefill=100, decode=100, routers=8)

    assert Memory.from_json(memory.to_json()) == memory
