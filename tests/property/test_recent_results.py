"""The recent results of a class or a tenant are those of its window, and nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from tandem_routing.history import RESULT_WINDOW_S, ResultHistory
from tandem_routing.verdict import Outcome

NAMES = ("acme", "other")
ended = st.tuples(
    st.sampled_from(NAMES), st.sampled_from(list(Outcome)), st.integers(0, 500), st.integers(0, 400)
)
limited = st.tuples(st.sampled_from(NAMES), st.integers(0, 400))


@given(st.lists(ended, max_size=60), st.lists(limited, max_size=20))
def test_a_window_has_what_ended_in_its_seconds(
    requests: list[tuple[str, Outcome, int, int]], refusals: list[tuple[str, int]]
) -> None:
    history = ResultHistory()
    # Time passes.
    for name, outcome, tokens, second in sorted(requests, key=lambda each: each[3]):
        history.add(name, outcome, output_tokens=tokens, second=second)
    for name, second in sorted(refusals, key=lambda each: each[1]):
        history.limit(name, second=second)
    last = max([each[-1] for each in (*requests, *refusals)], default=0)

    for name in NAMES:
        found = history.window(name, second=last)

        since = last - RESULT_WINDOW_S
        counted = [
            (outcome, tokens)
            for of, outcome, tokens, second in requests
            if of == name and second > since and outcome not in (Outcome.GONE, Outcome.REFUSED)
        ]
        outcomes = [outcome for outcome, _ in counted]
        good = [tokens for outcome, tokens in counted if outcome is Outcome.GOOD]
        assert (found.finished, found.good) == (len(counted), len(good))
        assert found.too_late == outcomes.count(Outcome.TOO_LATE)
        assert found.shed == outcomes.count(Outcome.SHED)
        assert found.output_tokens == sum(tokens for _, tokens in counted)
        assert found.good_output_tokens == sum(good)
        assert found.limited == sum(of == name and second > since for of, second in refusals)
