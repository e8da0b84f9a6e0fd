"""The recorder of decisions: what differs is found, and said where."""

from dataclasses import replace

from benchmarks.promise.cases import pool_of
from benchmarks.promise.quick import QUICK
from benchmarks.promise.runs import run
from benchmarks.same import PART, Found, differences, hashed
from tandem_operator.core.decision import Decision
from tandem_operator.sim.policy import Tandem


def decisions() -> list[Decision]:
    case = replace(QUICK[6], traffic=replace(QUICK[6].traffic, span_s=600.0))
    policy = Tandem()
    run(case, pool_of(case, None), policy)
    return policy.decisions


def found(*hashes: str, late: int = 0) -> dict[str, Found]:
    return {"promise poisson": {"figures": {"late": late}, "decisions": list(hashes)}}


def test_the_same_decisions_have_the_same_hashes_and_one_other_word_another() -> None:
    taken = decisions()
    at = PART + 1
    told = [*taken[:at], replace(taken[at], sentence="Something else."), *taken[at + 1 :]]

    assert len(taken) == 2 * PART
    assert hashed(taken) == hashed(decisions())
    assert [a == b for a, b in zip(hashed(taken), hashed(told), strict=True)] == [True, False]


def test_it_is_said_where_decisions_begin_to_differ() -> None:
    assert differences(found("a", "b"), found("a", "b")) == []
    assert differences(found("a", "b"), found("a", "c")) == [
        f"promise poisson: decisions {PART + 1} to {2 * PART} differ"
    ]
    assert differences(found("a"), found("a", late=3)) == ["promise poisson: late differ"]
    assert differences(found("a"), {}) == ["promise poisson: only recorded"]
