"""Output lengths are those of what arrives, whether traffic grows or falls."""

from math import exp
from random import Random

import pytest

from tandem_operator.core.learn.output_lengths import Outputs, output_lengths
from tandem_operator.core.observation import RouterReport
from tests.unit.core.scene import ended, report

START_S, END_S = 1_700_000_000, 1_700_000_300
TOKEN_S = 0.015
MEDIAN_TOKENS, SIGMA = 1000.0, 0.6
MEAN_TOKENS = MEDIAN_TOKENS * exp(SIGMA * SIGMA / 2.0)


def lived(growth: float, *, last_rps: float = 40.0) -> tuple[RouterReport, list[float]]:
    """Return a router's report at `END_S`, and the arrivals, which grow by a share per second."""
    random = Random(7)
    counts = [last_rps * exp(growth * (at - END_S)) for at in range(START_S - 300, END_S)]
    answers: dict[int, list[int]] = {}
    for at, count in zip(range(START_S - 300, END_S), counts, strict=True):
        for _ in range(round(count)):
            tokens = round(random.lognormvariate(0.0, SIGMA) * MEDIAN_TOKENS)
            answers.setdefault(int(at + TOKEN_S * tokens), []).append(tokens)
    rows = tuple(
        ended(
            float(second),
            len(answers[second]),
            output_tokens=sum(answers[second]),
            output_tokens_squared=sum(tokens**2 for tokens in answers[second]),
        )
        for second in sorted(answers)
        if START_S <= second < END_S
    )
    return report(now_s=float(END_S), finished=rows), counts


@pytest.mark.parametrize("growth", [-0.01, -0.004, 0.0, 0.004, 0.01])
def test_the_mean_is_that_of_arrivals_whatever_their_trend(growth: float) -> None:
    told, counts = lived(growth)

    found = output_lengths([told], None, counts=counts, token_s=TOKEN_S, step_s=5.0)

    assert found is not None
    assert found.mean_tokens == pytest.approx(MEAN_TOKENS, rel=0.05)


def test_without_a_time_per_token_it_is_that_of_what_ended() -> None:
    told, counts = lived(0.01)

    found = output_lengths([told], None, counts=counts, token_s=None, step_s=5.0)

    assert found is not None
    assert found.mean_tokens < 0.95 * MEAN_TOKENS


def test_a_step_corrects_by_a_bounded_share() -> None:
    told, counts = lived(0.0)
    step = [*counts[:-40], *[100.0 * count for count in counts[-40:]]]

    plain = output_lengths([told], None, counts=counts, token_s=TOKEN_S, step_s=5.0)
    after = output_lengths([told], None, counts=step, token_s=TOKEN_S, step_s=5.0)

    assert plain is not None
    assert after is not None
    assert plain.mean_tokens < after.mean_tokens <= 1.3 * plain.mean_tokens


def test_a_short_history_corrects_nothing() -> None:
    told, counts = lived(0.01)

    short = output_lengths([told], None, counts=counts[-60:], token_s=TOKEN_S, step_s=5.0)

    assert short == output_lengths([told], None, counts=counts, token_s=None, step_s=5.0)


def test_nothing_that_ended_keeps_what_was_known() -> None:
    told, counts = lived(0.0)
    known = output_lengths([told], None, counts=counts, token_s=TOKEN_S, step_s=5.0)

    assert (
        output_lengths(
            [report(now_s=float(END_S))], known, counts=counts, token_s=TOKEN_S, step_s=5.0
        )
        is known
    )


def test_few_answers_move_the_mean_no_further_for_being_seen_often() -> None:
    long_one = [ended(float(END_S - 20), 1, output_tokens=3000, output_tokens_squared=3000**2)]
    told = report(now_s=float(END_S), finished=tuple(long_one))
    found = before = Outputs(mean_tokens=600.0, cv2=0.4)

    for _ in range(36):
        after = output_lengths([told], found, counts=(), token_s=None, step_s=5.0)
        assert after is not None
        found = after

    assert before.mean_tokens < found.mean_tokens < 1.5 * before.mean_tokens


def test_many_answers_are_believed_at_once() -> None:
    told, counts = lived(0.0)
    other = Outputs(mean_tokens=100.0, cv2=0.0)

    found = output_lengths([told], other, counts=counts, token_s=None, step_s=5.0)

    assert found == output_lengths([told], None, counts=counts, token_s=None, step_s=5.0)
