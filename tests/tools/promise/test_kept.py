"""Runs are kept whole, found again, and made anew only when what they depend on changed."""

import subprocess
import sys
from pathlib import Path

from benchmarks.promise import kept
from benchmarks.promise.kept import OPERATOR, Kept, key_of
from benchmarks.source import meaning


def never() -> dict[str, int]:
    raise AssertionError("this run is kept")


def test_a_run_is_made_once_and_found_by_another_process(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "runs.jsonl"

    assert Kept(path).get("a", lambda: {"late": 3}) == {"late": 3}

    assert Kept(path).get("a", never) == {"late": 3}


def test_what_another_process_adds_meanwhile_is_found(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    mine, other = Kept(path), Kept(path)
    mine.get("a", lambda: {"late": 1})

    other.get("b", lambda: {"late": 2})

    assert mine.get("b", never) == {"late": 2}


def test_a_run_that_was_killed_while_it_was_written_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    Kept(path).get("a", lambda: {"late": 1})
    with path.open("a") as half:
        half.write('{"key":"b","row":{"la')

    again = Kept(path)

    assert again.get("a", never) == {"late": 1}
    assert again.get("b", lambda: {"late": 2}) == {"late": 2}
    assert Kept(path).get("c", lambda: {"late": 3}) == {"late": 3}


def test_runs_of_one_kind_differ_by_their_settings() -> None:
    keys = {key_of("fixed", "case", size) for size in ((1, 2), (2, 1))}

    assert len(keys | {key_of("hold", "case", (1, 2))}) == 3


def test_a_change_of_the_core_makes_only_its_own_runs_anew() -> None:
    core = OPERATOR / "core"

    assert core / "decide.py" in kept.depends_on("tandem")
    for kind in ("fixed", "clairvoyant", "hpa", "keda"):
        assert not [path for path in kept.depends_on(kind) if path.is_relative_to(core)]


def test_a_change_of_any_part_of_the_simulated_pool_makes_all_runs_anew() -> None:
    program = (
        "import sys, tandem_operator.sim.pool\n"
        "for name, module in list(sys.modules.items()):\n"
        "    if name.startswith(('tandem_operator.sim', 'tandem_routing')): print(module.__file__)"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300
    )
    simulator = OPERATOR / "sim"
    of_policies = {simulator / "policy.py", *kept.SEEN}
    parts = {Path(line) for line in told.stdout.split()} - {simulator / "__init__.py"}

    assert parts
    for kind in kept.OWN:
        assert parts - of_policies <= set(kept.depends_on(kind))


def test_a_module_that_moves_makes_no_run_anew_and_another_number_does() -> None:
    source = (
        '"""Rates."""\nfrom a.b import c\n\n\ndef f(x):\n    """Of x."""\n    return c(x, {})\n'
    )
    moved = source.replace("a.b", "a.d.b").replace("Of x", "For x") + "# The end.\n"

    assert meaning(source.format(1)) == meaning(moved.format(1))
    assert meaning(source.format(1)) != meaning(source.format(2))


def test_a_change_of_the_simulated_router_makes_every_run_anew() -> None:
    for kind in kept.OWN:
        assert OPERATOR / "sim" / "routing" / "router.py" in kept.depends_on(kind)


def test_all_that_runs_depend_on_is_there() -> None:
    for kind in kept.OWN:
        assert [path for path in kept.depends_on(kind) if not path.exists()] == []
