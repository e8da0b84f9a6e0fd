"""A pool's profile brings back what the pool learned, and says what that was."""

import json
from dataclasses import replace

import pytest

from tandem_operator.core.learn.engine_models import EngineModels
from tandem_operator.core.learn.measurements import LearnedEngines
from tandem_operator.core.learn.roofline import Prior
from tandem_operator.core.memory import Memory
from tandem_operator.core.observation import StartUp
from tandem_operator.core.observe.role_pods import Start, Starts
from tandem_operator.core.role import Role
from tandem_operator.sim.engines.learned_profile import NotLearnedError, learned_profile, origins
from tandem_operator.sim.engines.profile_files import ProfileError, read_cold_start, read_profile
from tandem_operator.sim.policy import Tandem
from tandem_operator.sim.simulate import simulate
from tests.unit.sim.setups import ENGINE, make_setup, steady

STARTS = Starts(
    {
        Role.PREFILL: tuple(Start(f"p{i}", 40.0 + i) for i in range(3)),
        Role.DECODE: tuple(Start(f"d{i}", 60.0 + i) for i in range(3)),
    }
)


def models():
    """Return engines that measured themselves, and were measured under traffic too."""
    told = StartUp(
        prefill=((100, 0.012), (1000, 0.03)),
        steps=((1, 0.006), (8, 0.007)),
        shape=None,
        hardware=None,
    )
    prior = Prior(service=(0.01, 2e-5, 1e-10), step=(0.0059, 1e-4, 4e-8))
    found = EngineModels()
    for role in Role:
        found = found.with_start_up(role, told, prior)
    return replace(found, kv_capacity_tokens=500_000.0)


def memory(engines=None, **fields):
    learned = LearnedEngines(engines={"abc": models() if engines is None else engines})
    return Memory(learned=learned, **fields)


def exported(kept, **changes):
    given = {"pool": "team/chat", "max_model_len": 32768, "max_num_seqs": 128} | changes
    return learned_profile(kept, **given)


def profile_of(document):
    return read_profile(json.dumps(document), source="chat.json")


def test_the_lines_that_were_learned_come_back_from_the_file():
    learned = models()
    profile = profile_of(exported(memory()))

    a0, a1, a2 = learned.service.coefficients()
    for tokens in (50, 700, 4000, 8000):
        wanted = a0 + a1 * tokens + a2 * tokens * tokens / 2.0
        assert profile.service_s(tokens) == pytest.approx(wanted, rel=1e-6)
        # Half of it in the cache: the rest attends to that too.
        half = tokens // 2
        wanted = a0 + a1 * half + a2 * half * (half + half / 2.0)
        assert profile.service_s(2 * half, half) == pytest.approx(wanted, rel=1e-6)
    for batch, kv_tokens in ((1, 100), (1, 30_000), (40, 80_000), (128, 400_000)):
        wanted = learned.step.itl_s(batch=batch, kv_tokens=kv_tokens)
        assert profile.step_s(batch, kv_tokens) == pytest.approx(wanted, rel=1e-6)
    assert profile.kv_capacity_tokens == 500_000


def test_a_first_token_with_nothing_in_its_way_takes_what_was_learned():
    document = exported(memory(overhead_s=0.05))
    profile = profile_of(document)

    assert profile.handover_s(3000) + profile.step_s(1, 0.0) == pytest.approx(0.05)


def test_cold_starts_are_those_that_were_seen():
    document = exported(memory(starts=STARTS))

    told = read_cold_start(json.dumps(document), source="chat.json")

    assert told.median_s == 51.0
    assert 0.1 < told.sigma < 0.3
    assert document["origin"]["cold_start"] == {
        "from": "pods",
        "seen": 6,
        "sigma_known": True,
        "prefill": 41.0,
        "decode": 61.0,
    }


def test_without_cold_starts_the_file_says_nothing_of_them():
    document = exported(memory())

    assert read_cold_start(json.dumps(document), source="chat.json") is None
    assert document["origin"]["cold_start"] == {"from": "assumed"}


def test_what_an_engine_told_at_its_start_is_told_apart_from_what_was_guessed():
    document = exported(memory())

    assert document["origin"]["prefill"]["from"] == "start-up"
    assert document["origin"]["prefill"]["context_from"] == "prior"
    assert document["origin"]["decode_step"]["from"] == "start-up"
    assert dict(origins(document)) == {
        "prefill": "as an engine measured itself at its start; what context costs is a first guess",
        "decode step": "as an engine measured itself at its start;"
        " what context costs is a first guess",
        "KV cache of a replica": "500,000 tokens, told by engines",
        "KV transfer": "assumed to take next to no time: not learned yet",
        "cold start": "not seen yet; set --cold-start",
    }


def test_an_unmeasured_value_is_called_a_guess_and_an_unknown_cache_assumed():
    prior = Prior(service=(0.01, 2e-5, 1e-10), step=(0.0059, 1e-4, 4e-8))
    nothing = StartUp(prefill=(), steps=(), shape=None, hardware=None)
    document = exported(memory(EngineModels().with_start_up(Role.PREFILL, nothing, prior)))

    words = dict(origins(document))
    assert words["prefill"] == (
        "a first guess by the model's shape and its GPU's data sheet, not measured yet"
    )
    assert words["KV cache of a replica"] == (
        "896,000 tokens, assumed: no engine told; set --kv-tokens"
    )


def test_what_was_learned_from_traffic_says_so_with_its_error():
    policy = Tandem()
    simulate(make_setup(steady(rate_rps=5.0, span_s=200.0)), policy)

    document = exported(policy.memory)
    profile = profile_of(document)

    origin = document["origin"]["prefill"]
    assert (origin["from"], origin["rows"] > 20) == ("traffic", True)
    assert "learned from traffic, error " in dict(origins(document))["prefill"]
    for tokens in (1000, 2000):
        assert profile.service_s(tokens) == pytest.approx(ENGINE.service_s(tokens), rel=0.15)
    assert profile.step_s(4, 8000.0) == pytest.approx(ENGINE.step_s(4, 8000.0), rel=0.15)


@pytest.mark.parametrize("kept", [Memory(), memory(EngineModels())])
def test_a_pool_that_learned_nothing_has_no_profile(kept):
    with pytest.raises(NotLearnedError, match="team/chat has not learned yet how long a prefill"):
        exported(kept)


@pytest.mark.parametrize(("longest", "most"), [(16, 1), (2048, 1), (1_000_000, 4096)])
def test_the_profile_of_any_pool_can_be_read(longest, most):
    profile = profile_of(exported(memory(), max_model_len=longest, max_num_seqs=most))

    assert profile.service_s(10) > 0.0


@pytest.mark.parametrize(
    "told",
    ["60", '{"median_s": -1, "sigma": 0}', '{"median_s": 60}', '{"median_s": 1, "sigma": 9}'],
)
def test_a_cold_start_that_makes_no_sense_is_refused(told):
    with pytest.raises(ProfileError, match="cold_start must be like"):
        read_cold_start(f'{{"cold_start": {told}}}', source="chat.json")
