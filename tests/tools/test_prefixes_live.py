"""The benchmark of prefix placement with real engines: its prompts, its bound and its tables."""

from collections import Counter
from dataclasses import replace

from benchmarks.load.record import Outcome, Record
from benchmarks.prefixes_live.__main__ import parser, plans
from benchmarks.prefixes_live.pool import Counted
from benchmarks.prefixes_live.prompts import BLOCK_TOKENS, Shape, in_one_cache, passes_of
from benchmarks.prefixes_live.run import Event, Pass, Plan, differing
from benchmarks.prefixes_live.table import Row, events_table, placement_table, row_of

SMALL = Shape(prefixes=3, prefix_tokens=70, each=2, passes=2)


def answer(*tokens: int, outcome: Outcome = Outcome.FINISHED, ttft_s: float = 0.1) -> Record:
    return Record(
        request_id="one",
        traffic="one",
        sent_s=0.0,
        late_s=0.0,
        elapsed_s=1.0,
        prompt_tokens=100,
        output_tokens=len(tokens),
        outcome=outcome,
        ttft_s=ttft_s,
        token_ids=tokens,
    )


def row(plan: Plan, *passes: Pass) -> Row:
    alone = [answer(1, 2)] * sum(len(one.records) for one in passes)
    figures = row_of(plan, passes, alone, endless=[50] * len(passes))
    return {"kv_tokens": 320, "one_cache": 50 * len(passes), **figures}


def cells(table: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]
    ]


def test_each_pass_has_every_prefix_as_often_and_no_prompt_comes_twice() -> None:
    passes = passes_of(SMALL, seed=1)

    assert passes == passes_of(SMALL, seed=1)
    for prompts in passes:
        begins = Counter(prompt[: SMALL.prefix_tokens] for prompt in prompts)
        assert list(begins.values()) == [2, 2, 2]
    every = [prompt for prompts in passes for prompt in prompts]
    assert len(set(every)) == len(every)


def test_an_endless_cache_finds_the_whole_blocks_of_each_prefix_but_for_its_first_request() -> None:
    first, second = in_one_cache(passes_of(SMALL, seed=1))

    assert first == 3 * 64
    assert second == 6 * 64


def test_a_cache_finds_no_more_than_it_has_room_for() -> None:
    passes = passes_of(SMALL, seed=1)

    small = in_one_cache(passes, blocks=1)

    assert all(found <= BLOCK_TOKENS * len(each) for found, each in zip(small, passes, strict=True))
    assert sum(small) < sum(in_one_cache(passes))


def test_the_last_token_of_a_prompt_is_computed_although_its_block_is_held() -> None:
    prompt = tuple(range(2 * BLOCK_TOKENS))

    assert in_one_cache([[prompt], [prompt]]) == [0, BLOCK_TOKENS]


def test_an_answer_counts_as_other_if_its_tokens_differ_or_it_failed() -> None:
    alone = [answer(1, 2)] * 3

    made = [answer(1, 2), answer(1, 3), answer(1, 2, outcome=Outcome.FAILED)]

    assert differing(made, alone) == 2


def test_restarts_are_run_by_prefix_in_the_smallest_cache_alone() -> None:
    options = parser().parse_args(["--model", "m"])

    small, large = (plans(options, kv_tokens) for kv_tokens in options.kv_tokens)

    assert [each.event for each in small[-2:]] == [Event.ROUTER, Event.ENGINE]
    assert all(each.by_prefix for each in small[-2:])
    assert {each.event for each in large} == {Event.NOTHING}
    salts = [each.salt for each in (*small, *large)]
    assert len(set(salts)) == len(salts)


def test_tables_tell_the_shares_of_a_run_and_of_each_pass_with_an_event() -> None:
    plan = Plan(by_prefix=True, at_a_time=2, event=Event.NOTHING, salt="s")
    cold = Pass([answer(1, 2)], {0: Counted(100, 0, 100)}, foreseen=0.0)
    warm = Pass([answer(1, 9, ttft_s=0.3)], {0: Counted(60, 30, 30), 1: Counted(40, 10, 30)}, 50.0)
    quiet = row(plan, cold, warm)
    loud = row(replace(plan, event=Event.ROUTER), cold, warm)

    [placed] = cells(placement_table([quiet, loud]))
    first, second = cells(events_table([quiet, loud]))

    assert placed == [
        *("320", "2", "Prefix", "200", "160", "0.200", "0.40", "0.40"),
        *("0.20 s", "0.29 s", "1 of 2"),
    ]
    assert first == ["the router restarts", "1", "0.000", "0.00", "", "0"]
    assert second == ["the router restarts", "2", "0.400", "0.80", "1.25", "1"]
