"""A simulated engine's measurement of itself before it was Ready, as a live launcher makes it."""

from tandem_operator.core.learn.shipped_profiles import SHIPPED
from tandem_operator.core.observation import Hardware, ModelShape, StartUp
from tandem_operator.core.role import Role
from tandem_operator.sim.engines.profile import EngineProfile

# The prompts and the room of a stream in `tandem_engine.serve.measure`.
PROMPTS_TOKENS = (32, 1024)
STREAM_TOKENS = 256
# The mean context of a stream while it gets 16 tokens after its first.
CONTEXT_TOKENS = 9.0


def measured_at_start(profile: EngineProfile, role: Role) -> StartUp:
    """Return what an engine of this profile and role measures: two prompts, or two batches."""
    shape, hardware = _kind(profile)
    if role is Role.PREFILL:
        return StartUp(
            prefill=tuple((float(n), profile.service_s(float(n))) for n in PROMPTS_TOKENS),
            shape=shape,
            hardware=hardware,
        )
    most = min(profile.max_num_seqs, profile.kv_capacity_tokens // STREAM_TOKENS)
    return StartUp(
        steps=tuple(
            (float(n), profile.step_s(n, n * CONTEXT_TOKENS)) for n in sorted({1, max(1, most)})
        ),
        shape=shape,
        hardware=hardware,
    )


def _kind(profile: EngineProfile) -> tuple[ModelShape | None, Hardware | None]:
    """Return the model and the hardware of a profile that ships with Tandem."""
    for each in SHIPPED:
        if each.name == profile.name:
            return each.shape, Hardware(each.device, each.devices)
    return None, None
