"""Searches find the best of a grid with few runs, and a run is scored where it says."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.promise import contenders, tables
from benchmarks.promise.bench import Bench, Size
from benchmarks.promise.cases import Case, pool_of
from benchmarks.promise.contenders import POLICIES
from benchmarks.promise.fixed_fleets import best_split, cheapest, least
from benchmarks.promise.kept import Kept, Row
from benchmarks.promise.present import Present
from benchmarks.promise.ratchet import Ratchet
from benchmarks.promise.relay import Relay
from benchmarks.promise.runs import run
from benchmarks.promise.scores import Result, lines
from benchmarks.promise.traffic import Family, Traffic
from benchmarks.promise.work import Job, work
from tandem_operator.core.role import Role
from tandem_operator.sim.policy import EPOCH_S, Static
from tandem_operator.sim.traces.generate import Lengths, Mix
from tests.unit.core.scene import observe

STEP = Case(
    "step",
    Traffic(Family.STEP, 1.0, 4.0, 400.0, 1, Mix(Lengths(1000), Lengths(50)), at_s=200.0),
    0.95,
    cold_start_s=30.0,
    scored_s=100.0,
    event_s=200.0,
)


@pytest.mark.parametrize("most", [2, 3, 10, 80])
def test_the_least_is_found_from_any_guess(most: int) -> None:
    for true in range(2, most + 1):
        for guess in range(most + 3):
            asked: set[int] = set()

            def enough(count: int, true: int = true, asked: set[int] = asked) -> bool:
                asked.add(count)
                return count >= true

            assert least(enough, guess, most) == true
            assert all(2 <= count <= most for count in asked)


def test_a_split_is_climbed_to_its_top_unless_the_target_comes_first() -> None:
    heights = {1: 0.2, 2: 0.5, 3: 0.9, 4: 0.99, 5: 0.7}

    assert best_split(heights.__getitem__, 0.2, 6, 1.0) == 4
    assert best_split(heights.__getitem__, 0.9, 6, 1.0) == 4
    assert best_split(heights.__getitem__, 0.2, 6, 0.9) == 3


def test_a_run_is_scored_by_arrivals_and_by_the_gpus_of_that_time() -> None:
    pool = pool_of(STEP, None)

    row = run(STEP, pool, Static({Role.PREFILL: 1, Role.DECODE: 2}))

    early = sum(r.at_s < 100.0 for r in pool.trace.requests)
    assert row["first"]["requests"] == early
    assert row["requests"] == len(pool.trace.requests) - early
    assert row["gpu_hours"] == pytest.approx(3 * 300.0 / 3600.0)
    assert row["changes_per_hour"] == 0.0
    assert row["late"] == 0


def test_no_run_of_a_fixed_fleet_is_made_for_another_target(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "runs.jsonl")
    Bench(STEP, kept, None).fixed((1, 1))

    tighter = Bench(replace(STEP, target=0.99), kept, None)

    tighter.fixed((1, 1))
    assert (tmp_path / "runs.jsonl").read_text().count('"key"') == 1


def test_the_cheapest_fixed_fleet_reaches_the_target(tmp_path: Path) -> None:
    bench = Bench(STEP, Kept(tmp_path / "runs.jsonl"), None)

    row = contenders.cheapest_fixed(bench)

    assert row is not None
    assert row["policy"] == "static 1P1D"
    assert row["attainment"] >= STEP.target


def test_the_informed_fleet_has_seen_none_of_the_draws(tmp_path: Path) -> None:
    seeds: list[int] = []

    class Counted(Bench):
        def fixed(self, size: Size) -> Row:
            return {"size": size, "attainment": 0.0}

    def sized(benches: Sequence[Bench]) -> Size:
        seeds.extend(bench.case.traffic.seed for bench in benches)
        return 3, 2

    calls = replace(STEP, traffic=replace(STEP.traffic, family=Family.POISSON))
    kept = Kept(tmp_path / "runs.jsonl")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(contenders, "cheapest", sized)
        row = contenders.informed(Counted(calls, kept, None))

    assert row is not None
    assert row["size"] == (3, 2)
    assert len(set(seeds)) == 3
    assert calls.traffic.seed not in seeds
    assert contenders.informed(Bench(STEP, kept, None)) is None


def test_one_fixed_fleet_is_enough_for_several_draws_together(tmp_path: Path) -> None:
    late = {1: {1: 9, 2: 4, 3: 0}, 2: {1: 8, 2: 2, 3: 2}}

    class Known(Bench):
        def fixed(self, size: Size) -> Row:
            missed = late[self.case.traffic.seed].get(min(size), 0)
            return {"late": missed, "requests": 50, "attainment": 1.0 - missed / 50}

    kept = Kept(tmp_path / "runs.jsonl")
    draws = [
        Known(replace(STEP, target=0.98, traffic=replace(STEP.traffic, seed=seed)), kept, None)
        for seed in late
    ]

    # 3P3D leaves 2 of 100 late; the second draw alone would need more.
    assert sum(cheapest(draws) or ()) == 6


def test_an_autoscaler_gets_the_cheapest_settings_that_reach_the_target(tmp_path: Path) -> None:
    tried: list[tuple[float, float]] = []

    class Told(Bench):
        def one(self, kind: str, settings: object, policy: object) -> Row:
            assert isinstance(settings, tuple)
            tried.append(settings)
            share, down_s = settings
            enough = share <= 0.5 or (share <= 0.7 and down_s >= 300.0)
            return {"attainment": 0.96 if enough else 0.9, "gpu_hours": down_s / 900.0 - share}

    row = contenders.keda(Told(STEP, Kept(tmp_path / "runs.jsonl"), None))

    assert row == {"attainment": 0.96, "gpu_hours": 60.0 / 900.0 - 0.5}
    assert len(tried) < 10


def test_the_surprised_policy_prepares_nothing_for_an_event(tmp_path: Path) -> None:
    long = Mix(Lengths(8000), Lengths(50))
    surge = replace(STEP, traffic=replace(STEP.traffic, high_rps=10.0, mix=long))
    bench = Bench(surge, Kept(tmp_path / "runs.jsonl"), None)

    surprised, seer = contenders.surprised(bench), contenders.clairvoyant(bench)

    assert surprised is not None
    assert surprised["late"] > seer["late"]
    assert contenders.surprised(Bench(replace(surge, event_s=None), bench.kept, None)) is None


def test_a_relay_asks_the_second_policy_from_its_moment_on() -> None:
    spec, observation = pool_of(STEP, None).spec, observe()
    first, second = (Static({Role.PREFILL: n, Role.DECODE: n}) for n in (1, 2))
    relay = Relay(first, second, 200.0)

    before, after = (relay.tick(spec, observation, now_s) for now_s in (199.0, 200.0))

    assert before.replicas == first.replicas
    assert after.replicas == second.replicas


def test_a_ratchet_keeps_the_most_of_each_role() -> None:
    spec, observation = pool_of(STEP, None).spec, observe()
    first, second = Static({Role.PREFILL: 3, Role.DECODE: 1}), Static(dict.fromkeys(Role, 2))
    ratchet = Ratchet(Relay(first, second, 200.0))

    _, after = (ratchet.tick(spec, observation, now_s) for now_s in (199.0, 200.0))

    assert after.replicas == {Role.PREFILL: 3, Role.DECODE: 2}


def test_the_excess_of_one_start_up_begins_with_the_fleet_that_was_there(tmp_path: Path) -> None:
    bench = Bench(STEP, Kept(tmp_path / "runs.jsonl"), None)

    caught, own = contenders.caught(bench), contenders.tandem(bench)

    assert caught is not None
    assert caught["first"] == own["first"]
    assert contenders.caught(Bench(replace(STEP, event_s=None), bench.kept, None)) is None


def test_who_knows_only_the_present_wants_nothing_for_what_is_still_to_come() -> None:
    long = Mix(Lengths(8000), Lengths(50))
    pool = pool_of(replace(STEP, traffic=replace(STEP.traffic, high_rps=20.0, mix=long)), None)
    step_s, observation = EPOCH_S + 200.0, observe()

    def wanted(*, at_s: float, trend: bool = False) -> int:
        policy = Present(pool.trace, pool.profile, pool.spec, start_s=60.0, trend=trend)
        return policy.tick(pool.spec, observation, at_s).replicas[Role.PREFILL]

    before, first, later = (wanted(at_s=step_s + after_s) for after_s in (-1.0, 2.0, 20.0))

    assert before <= first < later
    assert wanted(at_s=step_s + 20.0, trend=True) > later


def test_the_least_late_of_those_that_know_the_present_counts(tmp_path: Path) -> None:
    bench = Bench(STEP, Kept(tmp_path / "runs.jsonl"), None)

    noticed, caught = contenders.noticed(bench), contenders.caught(bench)

    assert noticed is not None
    assert caught is not None
    assert noticed["first"] == caught["first"]
    assert noticed["attainment"] <= caught["attainment"]
    assert contenders.noticed(Bench(replace(STEP, event_s=None), bench.kept, None)) is None


def test_foresight_keeps_no_more_spare_than_the_target_needs(tmp_path: Path) -> None:
    long = Mix(Lengths(8000), Lengths(50))
    surge = replace(STEP, traffic=replace(STEP.traffic, high_rps=10.0, mix=long))
    bench = Bench(surge, Kept(tmp_path / "runs.jsonl"), None)

    thrifty, seer = contenders.thrifty(bench), contenders.clairvoyant(bench)

    assert thrifty is not None
    assert thrifty["attainment"] >= surge.target
    assert thrifty["gpu_hours"] <= seer["gpu_hours"]


def test_every_policy_runs_on_a_case_and_the_tables_show_it(tmp_path: Path) -> None:
    quiet = replace(STEP, traffic=replace(STEP.traffic, low_rps=0.4, high_rps=1.2))
    job = Job(quiet, tuple(POLICIES), tmp_path, None)

    done, again = work(job), work(job)

    result = Result(done.case, done.rows)
    assert done.rows == again.rows
    assert [
        name for name, row in done.rows.items() if row is not None and row["requests"] == 0
    ] == []
    assert all(line.what for line in lines([result]))
    assert tables.by_case([result]).count("@") >= len(POLICIES) - 2
