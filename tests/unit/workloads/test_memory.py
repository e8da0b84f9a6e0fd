"""The stored form of a memory: small enough for a ConfigMap, and whole where it can be."""

import json
import math

import pytest

from tandem_operator.core.forecast.backtest import ERRORS_KEPT, Miss, Track
from tandem_operator.core.guard.growth_confirmation import Past
from tandem_operator.core.guard.stabilization import RUNS_KEPT, WantedRun, Wants
from tandem_operator.core.learn.measurements import LearnedEngines, LegStart, StepStart
from tandem_operator.core.memory import Memory
from tandem_operator.core.observe.role_pods import KEPT_STARTS, Start, Starts
from tandem_operator.core.quota.demand_curve import CurvePoint
from tandem_operator.core.quota.share import Crest
from tandem_operator.core.role import Role
from tandem_operator.core.sizing.decode_speed import TimedDecodePace
from tandem_operator.workloads.stored_memory import (
    MemoryFormatError,
    memory_from_json,
    memory_to_json,
)
from tests.unit.core.scene import NOW_S

CONFIG_MAP_BYTES = 1024 * 1024
LONGEST_POD_NAME = 63
LONG = 1.0 / 3.0


def lived(*, prefill: int, decode: int, routers: int) -> Memory:
    """Return everything a memory holds that grows with its pool, and the longest histories."""

    def pod(component: str, index: int) -> str:
        return f"{component}-{index:05d}".rjust(LONGEST_POD_NAME, "x")

    runs = tuple(WantedRun(NOW_S + i + LONG, 1000 - i % 2) for i in range(RUNS_KEPT))
    wants = Wants(runs=runs, seen_s=NOW_S + LONG)
    rates = {f"expert-{i}": 100.0 + LONG for i in range(12)}
    each = {Role.PREFILL: 1000, Role.DECODE: 1000}
    return Memory(
        at_s=NOW_S,
        learned=LearnedEngines(
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
        crest=Crest(
            NOW_S, tuple(CurvePoint(n, each, 100.0 + LONG) for n in range(prefill + decode))
        ),
    )


@pytest.mark.parametrize(
    ("prefill", "decode", "routers"), [(500, 500, 10), (1000, 1000, 4), (1000, 1000, 32)]
)
def test_the_memory_of_the_largest_pool_fits_well_into_a_config_map(
    prefill: int, decode: int, routers: int
) -> None:
    memory = lived(prefill=prefill, decode=decode, routers=routers)

    assert len(memory_to_json(memory)) < 0.6 * CONFIG_MAP_BYTES


def test_only_open_rows_of_a_very_large_fleet_are_left_out() -> None:
    memory = lived(prefill=1000, decode=1000, routers=32)

    stored = memory_from_json(memory_to_json(memory))

    assert stored.learned.legs == {}
    assert stored.learned.steps == memory.learned.steps
    assert stored.track == memory.track
    assert stored.crest == memory.crest


def test_the_memory_of_a_hundred_pods_is_stored_whole() -> None:
    memory = lived(prefill=100, decode=100, routers=8)

    assert memory_from_json(memory_to_json(memory)) == memory


def test_a_memory_of_another_version_is_refused_with_a_sentence() -> None:
    with pytest.raises(MemoryFormatError, match="version 99, expected 2"):
        memory_from_json('{"version": 99}')


@pytest.mark.parametrize("text", ["", "[]", "nonsense", '{"version": 2, "track": 3}'])
def test_an_unreadable_memory_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(MemoryFormatError, match="memory"):
        memory_from_json(text)


def test_a_fresh_memory_survives_json() -> None:
    assert memory_from_json(memory_to_json(Memory())) == Memory()


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "1" + "0" * 400])
def test_a_memory_with_a_number_that_is_none_is_refused(number: str) -> None:
    with pytest.raises(MemoryFormatError, match="finite"):
        memory_from_json(f'{{"version": 2, "overhead_s": {number}}}')


@pytest.mark.parametrize("text", ["[" * 100_000, '{"version": 2, "at_s": 1' + "0" * 5000 + "}"])
def test_a_memory_that_no_parser_takes_is_refused(text: str) -> None:
    with pytest.raises(MemoryFormatError, match="stored memory cannot be read"):
        memory_from_json(text)


# As every release with this version writes it.
WIRE = (
    '"at_s":5.0,"floors":{"prefill":2},"relieved":["decode"],'
    '"pace":{"steps":[0.1,0.2,0.30000000000000004],"kv_capacity_tokens":null,"max_num_seqs":8,'
    '"output_tokens":12.5,"told_s":1e+22}'
)
WRITTEN = Memory(
    at_s=5.0,
    floors={Role.PREFILL: 2},
    relieved=(Role.DECODE,),
    pace=TimedDecodePace(
        steps=(0.1, 0.2, 0.1 + 0.2),
        kv_capacity_tokens=None,
        max_num_seqs=8,
        output_tokens=12.5,
        told_s=1e22,
    ),
)


def test_a_memory_of_an_older_release_is_read_with_defaults_for_what_it_lacks() -> None:
    assert memory_from_json(f'{{"version":2,{WIRE}}}') == WRITTEN


def test_a_memory_of_a_newer_release_is_read_without_what_is_unknown() -> None:
    newer = f'{{"version":2,"later":{{"x":[1]}},"doors":{{"runs":[],"later":1}},{WIRE}}}'

    assert memory_from_json(newer) == WRITTEN


def test_an_older_release_can_read_what_is_written() -> None:
    raw = json.loads(memory_to_json(WRITTEN))

    assert json.loads(f"{{{WIRE}}}").items() <= raw.items()
    assert raw["learned"] == {"engines": {}, "legs": {}, "steps": {}}


def test_a_whole_number_is_read_where_any_number_may_stand() -> None:
    stored = memory_from_json('{"version":2,"at_s":5}')

    assert stored == Memory(at_s=5.0)
    assert isinstance(stored.at_s, float)


@pytest.mark.parametrize(
    ("field", "told"),
    [
        ('"at_s":true', "at_s: .* valid number"),
        ('"at_s":"5"', "at_s: .* valid number"),
        ('"promise":{"budget":{"minute":1.0}}', "promise.budget.minute: .* whole number"),
        ('"promise":{"budget":{"minute":true}}', "promise.budget.minute: .* whole number"),
        ('"promise":{"cover":{"steady":1}}', "promise.cover.steady: must be true or false; got 1"),
        ('"starts":{"coming":["a",1]}', r"starts.coming\[1\]: must be a string"),
        ('"starts":{"coming":"a"}', "starts.coming: must be a list"),
        ('"floors":{"router":1}', "floors.router.* must be 'prefill' or 'decode'; got \"router\""),
        ('"floors":[]', "floors: must be an object"),
        ('"relieved":["router"]', r"relieved\[0\]: must be 'prefill' or 'decode'"),
        ('"outputs":{"mean_tokens":1.0}', "outputs.cv2: this field is required"),
        ('"pace":{"steps":[1,2]}', r"pace.steps\[2\]: this field is required"),
        ('"doors":null', "doors: .* object"),
    ],
)
def test_a_value_of_another_type_is_refused_with_the_name_of_its_field(
    field: str, told: str
) -> None:
    with pytest.raises(MemoryFormatError, match=f"^The stored memory cannot be read: {told}"):
        memory_from_json(f'{{"version":2,{field}}}')


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_none_is_not_written(number: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        memory_to_json(Memory(at_s=number))


@pytest.mark.filterwarnings("ignore:Pydantic serializer")
def test_a_count_that_is_no_number_is_not_written_either() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        memory_to_json(Memory(floors={Role.PREFILL: math.inf}))  # type: ignore[dict-item]


def test_a_memory_of_before_scheduling_gates_were_known_is_read() -> None:
    starts = Starts({Role.DECODE: (Start("pod", 20.0),)}, coming=("next",))
    stored = json.loads(memory_to_json(Memory(starts=starts)))
    del stored["starts"]["held"]

    assert memory_from_json(json.dumps(stored)).starts == starts
