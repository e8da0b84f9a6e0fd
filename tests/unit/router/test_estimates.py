"""What the router learns, and that it says nothing before it knows."""

import random

import pytest

from tandem_engine.router.estimates import Mean, ServiceTime, TokensPerByte


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


def test_tokens_per_byte_is_learned() -> None:
    ratio = TokensPerByte()
    assert ratio.estimate(400) == 100

    for _ in range(50):
        ratio.learn(tokens=300, size=400)

    assert ratio.estimate(400) == pytest.approx(300, rel=0.01)
    assert ratio.estimate(0) == 1


def test_a_mean_without_values_is_unknown() -> None:
    mean = Mean(keep=0.5)
    assert mean.value is None

    mean.add(2.0)
    mean.add(4.0)

    assert mean.value == 3.0
