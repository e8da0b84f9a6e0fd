"""The peers of the comparison get their best settings, and efficiency alone never wins."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.replay.arena import Arena, Work, work
from benchmarks.replay.clairvoyant import Clairvoyant, schedule
from benchmarks.replay.search import Found, best, evaluate, splits_of
from benchmarks.replay.setup import Profile, Setup, fitted_start
from benchmarks.replay.simulate import Job, Result, remembered
from benchmarks.replay.workers import NotReplayedError, Workers
from tandem_operator.sim.traces.trace import Trace, TraceRequest
from tests.tools.replay.results import result

# A prompt of 1000 tokens takes 0.1 s; a decode engine makes 50 / 0.02 = 2500 tokens/s.
PROFILE = Profile(service=(0.0, 1e-4, 0.0), step=(0.01, 2e-4, 0.0))
SETUP = Setup("bf16", 0.5, 0.02, 60.0, (2, 1), 24, 32_768)
STEADY = Trace("steady", tuple(TraceRequest(i / 20.0, 1000, 250) for i in range(20 * 600)))


def test_the_most_efficient_point_that_reaches_the_objective_is_chosen() -> None:
    found = best([("starved", result(700, 100.0)), ("good", result(960, 300.0))])

    assert found.chosen == "good"


def test_where_none_reaches_the_objective_the_cheapest_of_the_best_is_chosen() -> None:
    found = best(
        [
            ("starved", result(500, 100.0)),
            ("better", result(885, 400.0)),
            ("dear", result(900, 900.0)),
        ]
    )

    assert found.chosen == "better"
    assert len(found.tried) == 3


class Asked(Workers):
    """Answers as if attainment were what the fleet's smaller half allows; replays nothing."""

    def __init__(self, *, enough: tuple[int, int]) -> None:
        super().__init__(1)
        self.enough = enough
        self.asked: list[Job] = []

    def run_all(self, jobs: Sequence[Job], trace: Trace, folder: Path) -> list[Result]:
        self.asked += jobs
        return [self._answer(job) for job in jobs]

    def _answer(self, job: Job) -> Result:
        planner = job.options.get("planner", {})
        floor = planner.get("prefill_min_endpoint"), planner.get("decode_min_endpoint")
        fleet = job.options.get("fleet", floor)
        short = sum(max(0, need - has) for need, has in zip(self.enough, fleet, strict=True))
        return result(960 - 100 * short, 100.0 * sum(fleet))


def arena(workers: Workers, *, floor_splits: int = 1) -> Arena:
    return Arena(STEADY, "abc", SETUP, Path("nowhere"), workers, floor_splits)


@pytest.mark.parametrize("enough", [(3, 2), (3, 3), (4, 3)])
def test_the_cheapest_fleet_that_reaches_the_objective_is_found(enough: tuple[int, int]) -> None:
    workers = Asked(enough=enough)

    found = evaluate(arena(workers), "static-best", PROFILE)

    size = sum(enough)
    assert found.chosen == f"{enough[0]}P{enough[1]}D"
    sizes = {sum(job.options["fleet"]) for job in workers.asked}
    assert {max(5, size - 1), size} <= sizes, "the size below was not tried"
    assert len({job.key() for job in workers.asked}) == len(workers.asked)


def test_a_fleet_several_times_the_busiest_minutes_work_is_found_where_clumps_need_it() -> None:
    # Steady work keeps two of each busy; only seven times as many reach the objective.
    found = evaluate(arena(Asked(enough=(14, 14))), "static-best", PROFILE)

    assert found.chosen == "14P14D"


def test_floors_go_from_the_mean_work_to_the_best_fixed_fleet() -> None:
    workers = Asked(enough=(4, 4))

    found = evaluate(arena(workers), "dynamo-tuned", PROFILE)
    more = evaluate(arena(workers, floor_splits=2), "dynamo-tuned", PROFILE)

    assert found.chosen == more.chosen == "both loops, kalman 30 s, floor 4P4D"
    assert _floors(found) == ["3P3D", "4P3D", "4P4D"]
    assert _floors(more) == ["3P3D", "4P2D", "4P3D", "3P4D", "4P4D", "5P3D"]


def _floors(found: Found) -> list[str]:
    return [what.split()[-1] for what, _ in found.tried]


def test_the_splits_nearest_to_the_works_own_come_first() -> None:
    assert splits_of(8, Work(2.5, 5.0), Work(1.5, 3.0))[:3] == [(5, 3), (4, 4), (6, 2)]
    assert splits_of(2, Work(9.0, 9.0), Work(0.1, 0.1)) == [(1, 1)]


def test_what_was_not_replayed_is_not_replayed_where_only_memory_may_answer(
    tmp_path: Path,
) -> None:
    job = arena(Workers(1)).job("static", fleet=[3, 3])

    with (
        Workers(1, remembered_only=True) as workers,
        pytest.raises(NotReplayedError, match="1 of 1 replays"),
    ):
        workers.run_all([job], STEADY, tmp_path)

    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / f"{job.key()}.json").write_text(result(5, 2.0).to_json())
    assert remembered(job, tmp_path) == result(5, 2.0)


def test_work_is_counted_in_replicas_kept_busy() -> None:
    prefill, decode = work(STEADY, SETUP, PROFILE)

    assert prefill.mean == pytest.approx(2.0, rel=0.02)
    assert decode.mean == pytest.approx(20 * 250 / 2500, rel=0.02)


def test_the_first_fleet_carries_the_first_minute() -> None:
    assert fitted_start(STEADY, PROFILE, 0.02) == (3, 3)


def test_the_clairvoyant_orders_one_start_up_time_ahead() -> None:
    quiet = [TraceRequest(float(i), 1000, 10) for i in range(200)]
    loud = [TraceRequest(200.0 + i / 30.0, 1000, 10) for i in range(30 * 100)]
    trace = Trace("step", tuple(quiet + loud))
    policy = Clairvoyant(schedule(trace, PROFILE, itl_s=0.02, startup_s=60.0))

    before, ahead = (policy.on_tick({"now_ms": at * 1000.0}) for at in (100.0, 140.0))

    assert before["target_prefill"] == 1
    assert ahead["target_prefill"] == 4
    assert ahead["next_tick_ms"] == 142_000.0


def test_a_result_is_remembered_under_everything_that_it_depends_on() -> None:
    jobs = [
        Job("static", "t", "abc", SETUP, {"fleet": [3, 2]}),
        Job("static", "t", "abc", SETUP, {"fleet": [3, 3]}),
        Job("static", "t", "abd", SETUP, {"fleet": [3, 2]}),
        Job("static", "t", "abc", SETUP.with_budget(30), {"fleet": [3, 2]}),
        Job("tandem", "t", "abc", SETUP, {}),
    ]

    assert len({job.key() for job in jobs}) == len(jobs)
    assert Result.from_json(result(5, 2.0).to_json()) == result(5, 2.0)
