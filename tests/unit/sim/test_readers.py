"""Published trace formats: the readable ones, and the sentences on the others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_operator.sim.traces.readers import TraceError, TraceFormat, read_trace

AZURE = [
    "TIMESTAMP,ContextTokens,GeneratedTokens\n",
    "2023-11-16 18:15:46.6805900,374,44\n",
    "2023-11-16 18:15:50.9951690,396,0\n",
    "2023-11-16 18:15:48.0000000,879,55\n",
]
MOONCAKE = [
    '{"timestamp": 3000, "input_length": 1100, "output_length": 5, "hash_ids": [0, 1, 2]}\n',
    "\n",
    '{"timestamp": 6000, "input_length": 600, "output_length": 7, "hash_ids": [0, 3]}\n',
]
SERVEGEN_HEADER = (
    "t_s,rate_rps,rate_weighted_cv,mean_input_tokens,mean_output_tokens,active_clients\n"
)
SERVEGEN = [
    SERVEGEN_HEADER,
    "0,5,1.0,400,100,9\n",
    "600,0,0,0,0,0\n",
    "1200,10,2.0,800,50,9\n",
]


def read(lines: list[str], form: TraceFormat, **more: float):
    return read_trace(lines, source="some.file", form=form, **more)


def test_azure_rows_come_in_order_of_time_from_zero() -> None:
    trace = read(AZURE, TraceFormat.AZURE)

    assert [r.at_s for r in trace.requests] == pytest.approx([0.0, 1.31941, 4.314579], abs=1e-5)
    assert [r.prompt_tokens for r in trace.requests] == [374, 879, 396]
    assert [r.output_tokens for r in trace.requests] == [44, 55, 1]


def test_mooncake_rows_keep_their_prefix_blocks() -> None:
    trace = read(MOONCAKE, TraceFormat.MOONCAKE)

    assert [r.at_s for r in trace.requests] == [0.0, 3.0]
    assert trace.requests[1].blocks == (0, 3)
    assert trace.block_tokens == 512


def test_a_mooncake_row_can_name_its_tenant() -> None:
    rows = [
        '{"timestamp": 0, "input_length": 5, "output_length": 2, "tenant": "search"}\n',
        '{"timestamp": 1, "input_length": 5, "output_length": 2, "tenant": null}\n',
        '{"timestamp": 2, "input_length": 5, "output_length": 2}\n',
    ]

    trace = read(rows, TraceFormat.MOONCAKE)

    assert [request.tenant for request in trace.requests] == ["search", "", ""]


@pytest.mark.parametrize("tenant", ["7", '""', '["search"]', f'"{64 * "a"}"'])
def test_a_tenant_that_is_no_name_is_refused(tenant: str) -> None:
    row = f'{{"timestamp": 0, "input_length": 5, "output_length": 2, "tenant": {tenant}}}\n'

    with pytest.raises(TraceError, match="1: tenant must be a name of at most 63"):
        read([row], TraceFormat.MOONCAKE)


def test_servegen_windows_become_requests_at_their_rates_and_lengths() -> None:
    trace = read(SERVEGEN, TraceFormat.SERVEGEN)

    first = [r for r in trace.requests if r.at_s < 600]
    third = [r for r in trace.requests if r.at_s >= 1200]
    assert len(first) == pytest.approx(3000, rel=0.1)
    assert len(third) == pytest.approx(6000, rel=0.15)
    assert sum(r.prompt_tokens for r in third) / len(third) == pytest.approx(800, rel=0.1)
    assert trace == read(SERVEGEN, TraceFormat.SERVEGEN)


def test_a_gap_of_a_servegen_trace_is_unknown_and_not_a_time_without_traffic() -> None:
    gap_first = [SERVEGEN_HEADER, "0,0,0,0,0,0\n", *SERVEGEN[1:]]
    gap_first[2:] = [
        f"{int(row.split(',')[0]) + 600},{row.partition(',')[2]}" for row in SERVEGEN[1:]
    ]

    for lines, begin_s in ((SERVEGEN, 600.0), (gap_first, 0.0), (gap_first, 1200.0)):
        unknown = [
            r
            for r in read(lines, TraceFormat.SERVEGEN).requests
            if begin_s <= r.at_s < begin_s + 600.0
        ]
        assert len(unknown) == pytest.approx(3000, rel=0.1)
        assert sum(r.prompt_tokens for r in unknown) / len(unknown) == pytest.approx(400, rel=0.15)


def test_a_servegen_window_of_which_only_the_rate_is_zero_has_no_requests() -> None:
    lines = [*SERVEGEN[:2], "600,0,1.0,400,100,0\n", SERVEGEN[3]]

    trace = read(lines, TraceFormat.SERVEGEN)

    assert not [r for r in trace.requests if 600.0 <= r.at_s < 1200.0]


def test_mooncake_rows_without_blocks_share_nothing() -> None:
    rows = [
        '{"timestamp": 0, "input_length": 5, "output_length": 2, "hash_ids": null}\n',
        '{"timestamp": 1, "input_length": 5, "output_length": 0}\n',
    ]

    first, second = read(rows, TraceFormat.MOONCAKE).requests

    assert first.blocks == second.blocks == ()
    assert second.output_tokens == 1


def test_a_rate_scale_lays_recorded_requests_over_themselves() -> None:
    trace = read(AZURE, TraceFormat.AZURE, rate_scale=2.0)

    assert len(trace.requests) == 6
    assert trace.span_s <= read(AZURE, TraceFormat.AZURE).span_s


def test_a_span_cuts_what_comes_later() -> None:
    assert len(read(AZURE, TraceFormat.AZURE, span_s=2.0).requests) == 2
    assert read(SERVEGEN, TraceFormat.SERVEGEN, span_s=60.0).span_s < 60.0


def test_azure_times_of_2024_carry_their_offset_from_utc() -> None:
    lines = [
        f"\ufeff{AZURE[0]}",
        "2024-05-10 00:00:00.009930+00:00,2162,5\n",
        "2024-05-10 00:00:01+00:00,2162,5\n",
        "2024-05-10T01:00:02.5+01:00,2162,5\n",
        "2024-05-10 00:00:03Z,2162,5\n",
    ]

    moments = [r.at_s for r in read(lines, TraceFormat.AZURE).requests]

    assert moments == pytest.approx([0.0, 0.99007, 2.49007, 2.99007], abs=1e-5)


def test_requests_of_one_moment_can_be_laid_over_themselves() -> None:
    trace = read(AZURE[:2], TraceFormat.AZURE, rate_scale=3.0)

    assert [r.at_s for r in trace.requests] == [0.0] * 3


def test_a_day_cut_out_of_a_servegen_trace_begins_at_zero() -> None:
    later = [f"{864_000 + 600 * i},{row.partition(',')[2]}" for i, row in enumerate(SERVEGEN[1:])]

    cut = read([SERVEGEN_HEADER, *later], TraceFormat.SERVEGEN, span_s=60.0)

    assert cut == read(SERVEGEN, TraceFormat.SERVEGEN, span_s=60.0)


@pytest.mark.parametrize("start_s", [0, 300, 599])
def test_servegen_windows_that_overlap_are_refused_and_not_skipped(start_s: int) -> None:
    with pytest.raises(TraceError, match=f"some.file:3: t_s is {start_s}, less than 600 seconds"):
        read([*SERVEGEN[:2], f"{start_s},5,1.0,400,100,9\n"], TraceFormat.SERVEGEN)


def test_a_scale_of_any_size_is_a_trace_or_a_sentence() -> None:
    busy = [SERVEGEN_HEADER, "0,1e308,1.0,400,100,9\n"]
    idle = [SERVEGEN_HEADER, "0,1e-300,1.0,400,100,9\n"]

    with pytest.raises(TraceError, match="more than 9 requests"):
        read(busy, TraceFormat.SERVEGEN, rate_scale=10.0, most_requests=9)
    with pytest.raises(TraceError, match="holds no request"):
        read(idle, TraceFormat.SERVEGEN, rate_scale=1e-300)


def test_a_trace_too_large_to_hold_says_what_would_do() -> None:
    with pytest.raises(TraceError, match="more than 100 requests; take a shorter span"):
        read(SERVEGEN, TraceFormat.SERVEGEN, most_requests=100)


def test_a_recorded_trace_too_large_to_hold_says_what_would_do() -> None:
    with pytest.raises(
        TraceError, match=r"more than 2 requests; take a shorter span, such as 0\.66s"
    ):
        read(AZURE, TraceFormat.AZURE, most_requests=2)


def test_a_span_spares_a_trace_what_comes_later_in_a_large_file() -> None:
    assert len(read(AZURE, TraceFormat.AZURE, span_s=2.0, most_requests=2).requests) == 2


def test_a_scale_that_makes_too_many_requests_is_refused_before_they_are_made() -> None:
    with pytest.raises(
        TraceError, match=r"more than 9 requests; .*, or a rate scale of at most 3$"
    ):
        read(AZURE, TraceFormat.AZURE, rate_scale=1e9, most_requests=9)


MONTH_LATER = "2023-12-16 18:15:52.0,10,10\n"
CENTURY_BEFORE = "1923-11-16 18:15:46.0,10,10\n"


@pytest.mark.parametrize(
    ("form", "lines", "sentence"),
    [
        (
            TraceFormat.AZURE,
            [*AZURE, MONTH_LATER],
            "some.file:5: comes 30 days after line 3, the request before it; mend the one that is"
            " wrong or take a shorter span, such as 5s",
        ),
        (
            TraceFormat.AZURE,
            [AZURE[0], CENTURY_BEFORE, *AZURE[1:]],
            "some.file:3: comes 36,525 days after line 2, the request before it; mend the one that"
            " is wrong",
        ),
        (
            TraceFormat.MOONCAKE,
            [*MOONCAKE, MOONCAKE[0].replace("3000", "1e12")],
            "some.file:4: comes 11,574 days after line 3",
        ),
        (
            TraceFormat.SERVEGEN,
            [*SERVEGEN, "9e8,5,1.0,400,100,9\n"],
            "some.file:5: begins 10,417 days after line 4",
        ),
    ],
)
def test_a_time_far_from_all_others_is_named_by_file_and_line(
    form: TraceFormat, lines: list[str], sentence: str
) -> None:
    with pytest.raises(TraceError) as raised:
        read(lines, form)

    assert str(raised.value).startswith(sentence)


@pytest.mark.parametrize(
    ("form", "lines"),
    [
        (TraceFormat.AZURE, [*AZURE, MONTH_LATER]),
        (TraceFormat.SERVEGEN, [*SERVEGEN, "9e8,5,1.0,400,100,9\n"]),
    ],
)
def test_a_span_that_ends_before_such_a_time_takes_the_rest(
    form: TraceFormat, lines: list[str]
) -> None:
    assert read(lines, form, span_s=60.0) == read(lines[:4], form, span_s=60.0)


def test_a_weekend_without_requests_is_no_mistake() -> None:
    lines = [*AZURE, "2023-11-19 08:00:00.0,10,10\n"]

    assert read(lines, TraceFormat.AZURE).span_s > 2 * 86_400.0


@pytest.mark.parametrize(
    ("form", "lines", "sentence"),
    [
        (TraceFormat.AZURE, [], "some.file: is empty"),
        (TraceFormat.AZURE, AZURE[:1], "some.file: holds no request"),
        (TraceFormat.AZURE, ["a,b\n", "1,2\n"], "some.file:1: header lacks TIMESTAMP"),
        (TraceFormat.AZURE, [*AZURE, "yesterday,1,2\n"], "some.file:5: TIMESTAMP must be like"),
        (TraceFormat.AZURE, [*AZURE, "2023-11-16 18:15:46,1\n"], "some.file:5: expected 3 columns"),
        (
            TraceFormat.AZURE,
            [*AZURE, "2023-11-16 18:15:46,-4,2\n"],
            "some.file:5: ContextTokens must be a whole number of tokens of at least 0; got '-4'",
        ),
        (TraceFormat.MOONCAKE, [*MOONCAKE, "{oops\n"], "some.file:4: not JSON"),
        (TraceFormat.MOONCAKE, ["[1]\n"], "some.file:1: expected an object"),
        (
            TraceFormat.MOONCAKE,
            ['{"timestamp": 1, "input_length": 2}\n'],
            "some.file:1: output_length must be a whole number of tokens of at least 0; got None",
        ),
        (
            TraceFormat.MOONCAKE,
            ['{"timestamp": 1, "input_length": 2, "output_length": 3, "hash_ids": "x"}\n'],
            "some.file:1: hash_ids must be a list",
        ),
        (
            TraceFormat.MOONCAKE,
            ['{"timestamp": 1, "input_length": 2.5, "output_length": 3}\n'],
            "some.file:1: input_length must be a whole number of tokens of at least 0; got 2.5",
        ),
        (
            TraceFormat.MOONCAKE,
            ['{"timestamp": 1, "input_length": 1e999, "output_length": 3}\n'],
            "some.file:1: input_length must be a whole number",
        ),
        (
            TraceFormat.MOONCAKE,
            [f'{{"timestamp": 1, "input_length": {"9" * 400}, "output_length": 3}}\n'],
            "some.file:1: input_length must be a whole number",
        ),
        (
            TraceFormat.MOONCAKE,
            [f'{{"timestamp": {"9" * 5000}, "input_length": 2, "output_length": 3}}\n'],
            "some.file:1: a number too long or nesting too deep to read",
        ),
        (
            TraceFormat.MOONCAKE,
            ["[" * 100_000],
            "some.file:1: a number too long or nesting too deep to read",
        ),
        (
            TraceFormat.AZURE,
            [*AZURE, "2023-11-16 18:15:46.5e3,1,2\n"],
            "some.file:5: TIMESTAMP must be like",
        ),
        (
            TraceFormat.SERVEGEN,
            [SERVEGEN_HEADER, "0,5,1,1.7e308,100,9\n"],
            "some.file:2: mean_input_tokens is 1.7e+308, more than any model takes",
        ),
        (
            TraceFormat.SERVEGEN,
            [SERVEGEN_HEADER, "0,-5,1,400,100,9\n"],
            "some.file:2: rate_rps must be a number of at least 0; got '-5'",
        ),
        (
            TraceFormat.SERVEGEN,
            [SERVEGEN_HEADER, "0,nan,1,400,100,9\n"],
            "some.file:2: rate_rps must be a number",
        ),
    ],
)
def test_what_cannot_be_read_is_named_by_file_and_line(
    form: TraceFormat, lines: list[str], sentence: str
) -> None:
    with pytest.raises(TraceError) as raised:
        read(lines, form)

    assert str(raised.value).startswith(sentence)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_a_scale_that_is_not_positive_is_refused(scale: float) -> None:
    with pytest.raises(TraceError, match="rate scale must be greater than 0, such as 2"):
        read(MOONCAKE, TraceFormat.MOONCAKE, rate_scale=scale)


@given(st.sampled_from(TraceFormat), st.lists(st.text(max_size=60), max_size=4))
def test_any_text_is_a_trace_or_a_sentence(form: TraceFormat, lines: list[str]) -> None:
    message, requests = "", ()
    try:
        requests = read(lines, form).requests
    except TraceError as error:
        message = str(error)

    assert requests or message.startswith("some.file")
