"""Traffic that changes at once: each draw stays inside its stated bounds."""

import pytest

from tandem_operator.sim.traces.generate import Lengths, Mix
from tandem_operator.sim.traces.spikes import MOST_HEIGHT, Spikes, shift, spikes

SMALL, LARGE = Mix(Lengths(100), Lengths(10)), Mix(Lengths(400), Lengths(10))


def test_the_same_seed_gives_the_same_spikes() -> None:
    kind = Spikes(0.0, 20.0)

    first, again, other = (spikes("s", kind, span_s=1000.0, mix=SMALL, seed=n) for n in (1, 1, 2))

    assert first == again
    assert first.requests != other.requests


def test_nothing_comes_between_spikes_where_the_calm_is_silent() -> None:
    trace = spikes(
        "s", Spikes(0.0, 50.0, silence_s=(60.0, 120.0)), span_s=7200.0, mix=SMALL, seed=3
    )

    gaps = [b.at_s - a.at_s for a, b in zip(trace.requests, trace.requests[1:], strict=False)]

    silences = [gap for gap in gaps if gap > 30.0]
    assert len(silences) > 40
    assert min(silences) > 59.0
    assert max(silences) < 121.0


def test_the_long_mean_is_what_was_promised_and_no_spike_is_boundless() -> None:
    kind = Spikes(0.1, 10.0)

    trace = spikes("s", kind, span_s=100_000.0, mix=SMALL, seed=4)

    assert trace.rate_rps == pytest.approx(kind.mean_rps, rel=0.1)
    per_second: dict[int, int] = {}
    for request in trace.requests:
        per_second[int(request.at_s)] = per_second.get(int(request.at_s), 0) + 1
    assert max(per_second.values()) < 2.0 * MOST_HEIGHT * kind.height_rps


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"calm_rps": -1.0}, "calm_rps"),
        ({"height_rps": 0.0}, "height_rps"),
        ({"silence_s": (60.0, 10.0)}, "silence_s"),
        ({"spike_s": (0.0, 10.0)}, "spike_s"),
    ],
)
def test_spikes_that_cannot_be_are_refused_by_name(wrong: dict[str, float], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        Spikes(**{"calm_rps": 0.0, "height_rps": 10.0} | wrong)  # type: ignore[arg-type]


def test_a_shift_changes_lengths_and_not_the_rate() -> None:
    trace = shift("s", 10.0, before=SMALL, after=LARGE, at_s=300.0, span_s=600.0, seed=5)

    before = [r for r in trace.requests if r.at_s < 300.0]
    after = [r for r in trace.requests if r.at_s >= 300.0]
    assert {r.prompt_tokens for r in before} == {100}
    assert {r.prompt_tokens for r in after} == {400}
    assert len(before) == pytest.approx(len(after), rel=0.1)
