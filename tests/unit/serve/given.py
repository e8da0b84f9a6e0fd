"""Settings and facts that tests start from."""

from dataclasses import replace
from typing import Any

from tandem_engine.serve.engine_facts import EngineFacts
from tandem_engine.serve.engine_settings import EngineSettings, Role

AVX512 = frozenset({"avx", "avx2", "avx512f"})
AVX2 = frozenset({"avx", "avx2"})
AMX = AVX512 | {"amx_tile"}


def settings(**changes: Any) -> EngineSettings:
    given = {"role": Role.DECODE, "model": "/models/tiny", "served_model_name": "tiny"}
    return EngineSettings.model_validate(given | changes)


def facts(**changes: Any) -> EngineFacts:
    known = EngineFacts(
        python="/opt/engine/bin/python",
        cpu_flags=AVX512,
        cpu_limit=1.5,
        pod_ip="10.1.2.3",
        cache_dir="/cache",
        environment={},
        model_is_local=True,
    )
    return replace(known, **changes)
