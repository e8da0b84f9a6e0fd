"""The router's estimates; it says nothing before it knows."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem_engine.router.openai.prompt_sizes import PromptSizes
from tandem_engine.router.openai.prompts import Prompt
from tandem_routing.estimates import Mean, ServiceTime


def taught(legs: int, *, seed: int = 1, noise: float = 0.05, scale: float = 1.0) -> ServiceTime:
    rng = random.Random(seed)
    model = ServiceTime()
    for _ in range(legs):
        uncached, cached = rng.randrange(10, 8000), rng.choice([0, 0, 2000])
        leg_s = scale * truth_s(uncached, cached) * rng.uniform(1 - noise, 1 + noise)
        model.learn(uncached=uncached, cached=cached, leg_s=leg_s)
    return model


def truth_s(uncached: int, cached: int) -> float:
    u = uncached / 1000
    return 0.02 + 0.05 * u + 0.002 * u * (cached + uncached / 2) / 1000


def test_service_time_is_unknown_until_a_few_legs_were_seen() -> None:
    assert ServiceTime().predict_s(uncached=100, cached=0) is None
    assert taught(3).predict_s(uncached=100, cached=0) is None


@pytest.mark.parametrize(("uncached", "cached"), [(50, 0), (1000, 0), (7000, 0), (1000, 2000)])
def test_service_time_is_learned_from_noisy_legs(uncached: int, cached: int) -> None:
    predicted = taught(200).predict_s(uncached=uncached, cached=cached)

    assert predicted == pytest.approx(truth_s(uncached, cached), rel=0.1)


def test_service_time_follows_an_engine_that_became_slower() -> None:
    model = taught(400)
    rng = random.Random(2)
    for _ in range(600):
        uncached = rng.randrange(10, 8000)
        model.learn(uncached=uncached, cached=0, leg_s=2 * truth_s(uncached, 0))

    assert model.predict_s(uncached=2000, cached=0) == pytest.approx(2 * truth_s(2000, 0), rel=0.15)


@pytest.mark.parametrize("seed", range(20))
def test_no_prompt_is_predicted_to_take_less_than_no_time(seed: int) -> None:
    rng = random.Random(seed)
    model = ServiceTime()
    for _ in range(6):
        model.learn(uncached=rng.randrange(1, 50), cached=0, leg_s=rng.uniform(0.001, 1.0))

    predictions = [model.predict_s(uncached=u, cached=0) for u in (1, 1000, 100_000)]

    assert all(prediction is not None and prediction >= 0 for prediction in predictions)
    assert predictions == sorted(predictions)


def test_one_prompt_length_is_enough_for_that_length() -> None:
    model = ServiceTime()
    for _ in range(10):
        model.learn(uncached=512, cached=0, leg_s=0.25)

    assert model.predict_s(uncached=512, cached=0) == pytest.approx(0.25)


@pytest.mark.parametrize("seed", range(10))
def test_prompts_of_about_one_length_do_not_teach_that_the_length_does_not_matter(
    seed: int,
) -> None:
    rng = random.Random(seed)
    model = ServiceTime()
    for _ in range(20):
        model.learn(
            uncached=rng.randrange(1520, 1700), cached=0, leg_s=0.25 * rng.uniform(0.5, 1.5)
        )

    short, long = (model.predict_s(uncached=u, cached=0) for u in (160, 1600))

    assert short == pytest.approx(0.1 * (long or 0.0))


def test_the_fixed_part_of_the_time_is_learned_as_soon_as_lengths_differ() -> None:
    model = ServiceTime()
    for uncached in (*range(1520, 1700, 20), 300, 320):
        model.learn(uncached=uncached, cached=0, leg_s=0.05 + uncached / 10_000)

    assert model.predict_s(uncached=0, cached=0) == pytest.approx(0.05, rel=0.15)


def test_tokens_per_byte_is_learned() -> None:
    sizes = PromptSizes()
    assert sizes.estimate(Prompt(size=400)) == 100

    for _ in range(100):
        sizes.learn(Prompt(size=400), tokens=300)

    assert sizes.estimate(Prompt(size=400)) == pytest.approx(300, rel=0.01)
    assert sizes.estimate(Prompt()) == 1


def test_the_size_of_an_image_is_learned_apart_from_text() -> None:
    sizes = PromptSizes()
    for _ in range(100):
        sizes.learn(Prompt(size=400, media=2), tokens=100 + 2 * 300)

    assert sizes.estimate(Prompt(size=400)) == 100
    assert sizes.estimate(Prompt(size=400, media=1)) == pytest.approx(400, rel=0.1)


@settings(max_examples=300)
@given(
    history=st.lists(st.tuples(st.integers(1, 10**7), st.integers(1, 10**7)), max_size=20),
    odd=st.tuples(st.integers(1, 10**9), st.integers(1, 10**9), st.integers(0, 50)),
)
def test_no_one_prompt_moves_the_size_of_others_by_more_than_a_tenth(
    history: list[tuple[int, int]], odd: tuple[int, int, int]
) -> None:
    sizes = PromptSizes()
    for size, tokens in history:
        sizes.learn(Prompt(size=size), tokens=tokens)
    others = (Prompt(size=10**6), Prompt(media=1000))
    before = [sizes.estimate(prompt) for prompt in others]

    size, tokens, media = odd
    sizes.learn(Prompt(size=size, media=media), tokens=tokens)

    for prompt, was in zip(others, before, strict=True):
        assert sizes.estimate(prompt) == pytest.approx(was, rel=0.101)


def test_what_was_cut_teaches_nothing() -> None:
    sizes = PromptSizes()

    sizes.learn(Prompt(size=400, learnable=False), tokens=1)

    assert sizes.estimate(Prompt(size=400)) == 100


@pytest.mark.parametrize("odd_s", [1e-6, 0.001, 10.0, 1e6])
@pytest.mark.parametrize("legs", [4, 10, 200])
def test_no_one_leg_moves_the_time_of_others_by_more_than_a_tenth(legs: int, odd_s: float) -> None:
    model = taught(legs)
    lengths = [10, 100, 1000, 8000, 100_000]
    before = [model.predict_s(uncached=u, cached=0) for u in lengths]

    model.learn(uncached=3000, cached=0, leg_s=odd_s)

    for uncached, was in zip(lengths, before, strict=True):
        assert model.predict_s(uncached=uncached, cached=0) == pytest.approx(was, rel=0.101)


def test_a_first_leg_that_was_an_accident_is_outweighed_by_others() -> None:
    model = ServiceTime()
    model.learn(uncached=1000, cached=0, leg_s=1e-5)
    for _ in range(30):
        model.learn(uncached=1000, cached=0, leg_s=0.1)

    assert model.predict_s(uncached=1000, cached=0) == pytest.approx(0.1, rel=0.15)


def test_a_mean_without_values_is_unknown() -> None:
    mean = Mean(keep=0.5)
    assert mean.value is None

    mean.add(2.0)
    mean.add(4.0)

    assert mean.value == 3.0


@pytest.mark.parametrize("odd", [0.0, 1e9])
def test_no_one_value_moves_a_bounded_mean_by_more_than_its_bound(odd: float) -> None:
    mean = Mean(keep=0.5, most_move=0.1)
    for value in (100.0, 1e9, 101.0, 99.0, 100.0):
        mean.add(value)
    assert mean.value == 100.0

    mean.add(odd)

    assert mean.value == pytest.approx(100.0, rel=0.1001)
