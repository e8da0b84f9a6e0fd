"""A trace made of what routers saw has their arrivals, their lengths, and what begins alike."""

from dataclasses import replace
from random import Random

import pytest

from tandem_operator.sim.traces.readers import TraceFormat, read_trace
from tandem_operator.sim.traces.recorded import LoggedRequest, recorded, trace_lines

BYTES_PER_TOKEN = 4.4
CHUNK_BYTES = 1024


def seen(at_s=0.0, *, prompt=1000, output=10, whole=True, cached=0, names=(), tenant=""):
    marks = tuple(f"{name:>8}".encode() for name in names)
    return LoggedRequest(at_s, prompt, cached, output, whole, marks, tenant)


def made(*requests, since_s=0.0):
    found = recorded("r", requests, since_s=since_s)
    assert found is not None
    return found


def test_what_is_written_is_read_back_as_it_was():
    random = Random(1)
    found = made(
        *(
            seen(
                random.uniform(0.0, 100.0),
                prompt=random.randint(1, 9000),
                output=random.randint(0, 900),
                names=[random.randint(0, 3) for _ in range(6)],
                tenant=random.choice(["", "search", "other"]),
            )
            for _ in range(200)
        )
    )

    text = list(trace_lines(found.trace))
    back = read_trace(text, source="r", form=TraceFormat.MOONCAKE)

    first_s = found.trace.requests[0].at_s
    for ours, theirs in zip(found.trace.requests, back.requests, strict=True):
        assert theirs.at_s == pytest.approx(ours.at_s - first_s, abs=2e-4)
        assert replace(theirs, at_s=ours.at_s) == ours


def test_prompts_share_the_blocks_that_they_share_in_tokens():
    # Sessions that go on, as a router marks them: by bytes, which are more or fewer to a token.
    random = Random(2)
    requests, shared_tokens = [], []
    for session in range(40):
        per_token = BYTES_PER_TOKEN * random.uniform(0.95, 1.05)
        tokens = 0
        for turn in range(4):
            before, tokens = tokens, tokens + random.randint(900, 2500)
            chunks = int(tokens * per_token) // CHUNK_BYTES
            requests.append(seen(prompt=tokens, names=[f"{session}-{c}" for c in range(chunks)]))
            shared_tokens.append((before, turn))

    found = made(*requests).trace.requests

    for at, (before, turn) in enumerate(shared_tokens):
        if turn == 0:
            continue
        alike = len(set(found[at].blocks) & set(found[at - 1].blocks))
        # Within two blocks, of up to twenty.
        assert abs(alike - before // 512) <= 2
    assert not set(found[0].blocks) & set(found[-1].blocks)


def test_the_clock_begins_with_the_record_and_requests_come_by_time():
    found = made(seen(130.0), seen(110.0), since_s=100.0)

    assert [request.at_s for request in found.trace.requests] == [10.0, 30.0]


def test_an_answer_that_broke_off_is_taken_to_be_as_long_as_one_to_a_prompt_like_it():
    short = [seen(prompt=100, output=20) for _ in range(9)]
    long = [seen(prompt=5000, output=700) for _ in range(9)]
    broken = [seen(1.0, prompt=100, output=3, whole=False), seen(2.0, prompt=5000, whole=False)]

    found = made(*short, *long, *broken)

    assert [request.output_tokens for request in found.trace.requests[-2:]] == [20, 700]
    assert found.drawn == 2


def test_an_answer_that_broke_off_late_is_not_taken_for_shorter_than_it_was():
    found = made(seen(output=20), seen(1.0, output=300, whole=False))

    assert found.trace.requests[-1].output_tokens == 300


def test_nothing_is_made_of_requests_without_one_whole_answer():
    assert recorded("r", [seen(whole=False)], since_s=0.0) is None
    assert recorded("r", [], since_s=0.0) is None


def test_what_engines_do_not_say_of_their_caches_counts_as_nothing_said():
    found = made(seen(cached=500), seen(cached=None))

    assert found.cached_share == 0.5
    assert made(seen(cached=None)).cached_share is None
