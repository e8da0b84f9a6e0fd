"""The router's expectations of a request before it knows: lengths, streams, times."""

import json
from dataclasses import replace
from typing import Any, cast

import pytest

from tandem_engine.router.forwarding.flight import Flight, LearnedByRouter
from tandem_engine.router.openai.call import parse_call
from tandem_engine.router.openai.endpoints import EndpointKind
from tandem_engine.router.settings_in_force import parse_settings
from tandem_routing.verdict import Timeline
from tests.unit.router.pool import decode_pace, settings_document


def flight(prompt_tokens: int = 10, *, max_model_len: int | None = 2048, **fields: Any) -> Flight:
    document = settings_document(max_model_len=max_model_len, decode=decode_pace())
    settings = parse_settings(json.dumps(document))
    body = {"model": "tiny", "prompt": [5] * prompt_tokens, **fields}
    return Flight(
        call=parse_call(EndpointKind.COMPLETIONS, json.dumps(body).encode(), settings),
        request_id="x",
        headers={},
        settings=settings,
        timeline=Timeline(received_s=0.0),
        received_wall_s=0.0,
        prompt_tokens=prompt_tokens,
        task=cast("Any", None),
        arrival_second=0,
        exact=True,
    )


@pytest.mark.parametrize(
    ("learned", "fields", "tokens"),
    [
        (None, {}, 128),
        (300.0, {}, 300),
        (300.0, {"max_tokens": 40}, 40),
        (300.0, {"n": 8}, 2400),
        (1e6, {}, 2048),
        (1e6, {"max_model_len": None}, 1_000_000),
    ],
)
def test_an_answer_is_as_long_as_the_mean_and_no_longer_than_it_may_be(
    learned: float | None, fields: dict[str, Any], tokens: int
) -> None:
    known = LearnedByRouter()
    known.output_tokens.value = learned

    assert known.expected_output_tokens(flight(**fields)) == tokens


def learned_with_hits(share: float) -> LearnedByRouter:
    """Return the estimates after prompts that take 20 ms and 0.1 ms per uncached token."""
    known = LearnedByRouter()
    known.newest_revision = "a"
    for tokens in range(1000, 2000, 5):
        cached = round(share * tokens)
        known.prefilled(tokens, cached_tokens=cached)
        uncached = tokens - cached
        known.service["a"].learn(uncached=uncached, cached=cached, leg_s=0.02 + 1e-4 * uncached)
    return known


@pytest.mark.parametrize(("share", "service_s"), [(0.0, 0.14), (0.9, 0.032)])
def test_of_a_prompt_that_is_mostly_cached_only_the_rest_takes_time(
    share: float, service_s: float
) -> None:
    expected = learned_with_hits(share).expected_of(flight(1200, max_tokens=10))

    assert expected.service_s == pytest.approx(service_s, rel=0.1)
    # A decode pod has no part in that cache.
    assert expected.whole_s == pytest.approx(0.14, rel=0.1)


def test_hits_are_learned_by_prompt_length_and_where_engines_tell_them() -> None:
    known = learned_with_hits(0.9)
    for _ in range(100):
        known.prefilled(100, cached_tokens=None)

    assert known.expected_of(flight(100)).service_s == pytest.approx(0.03, rel=0.1)


def test_a_number_of_choices_that_no_engine_makes_is_one_that_can_be_reckoned_with() -> None:
    one = flight()
    many = flight()
    many.call = replace(many.call, choices=10**400)

    assert many.streams == 16_384
    assert LearnedByRouter().expected_output_tokens(many) == 16_384 * 128
    assert one.streams == 1
