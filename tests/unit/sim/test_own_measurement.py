"""What a simulated engine measures of itself, against its profile."""

from dataclasses import replace

import pytest

from tandem_operator.cli.input.profiles import profile_of
from tandem_operator.core.learn.engine_models import EngineModels
from tandem_operator.core.learn.priors import prior_of
from tandem_operator.core.role import Role
from tandem_operator.sim.engines.own_measurement import measured_at_start
from tandem_operator.sim.engines.profile import straight_profile

STRAIGHT = straight_profile(
    "straight", prefill=(0.02, 5e-5), step=(0.005, 1e-4, 2e-8), kv_capacity_tokens=100_000
)


def test_a_prefill_engine_gives_the_line_of_its_prompts() -> None:
    start_up = measured_at_start(STRAIGHT, Role.PREFILL)

    models = EngineModels().with_start_up(Role.PREFILL, start_up)

    assert models.service.coefficients() == pytest.approx((0.02, 5e-5, 0.0))
    assert not start_up.steps


def test_a_decode_engine_gives_the_line_of_its_batches() -> None:
    start_up = measured_at_start(STRAIGHT, Role.DECODE)

    fixed_s, per_stream_s, _ = (
        EngineModels().with_start_up(Role.DECODE, start_up).step.coefficients()
    )

    assert fixed_s == pytest.approx(0.005)
    assert per_stream_s == pytest.approx(1e-4, rel=0.01)
    assert not start_up.prefill


@pytest.mark.parametrize(("kv_tokens", "batch"), [(100_000, 256), (10_000, 39), (100, 1)])
def test_the_largest_batch_fits_the_cache(kv_tokens: int, batch: int) -> None:
    small = replace(STRAIGHT, kv_capacity_tokens=kv_tokens)

    assert measured_at_start(small, Role.DECODE).steps[-1][0] == batch


def test_engines_of_a_shipped_profile_say_their_model_and_hardware() -> None:
    known = measured_at_start(profile_of("h200-llama-3.1-8b-fp8"), Role.DECODE)

    assert prior_of(known) is not None
    assert prior_of(measured_at_start(STRAIGHT, Role.DECODE)) is None
