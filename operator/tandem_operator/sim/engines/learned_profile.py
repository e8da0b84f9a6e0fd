"""The learned engine models of a pool, as a profile that separates learned from guessed values.

The core learns straight lines: a0 + a1 u + a2 u x context of a prefill, d0 + d1 b + d2 K of a
decode step. A profile consists of points on these lines, so reading the points gives the lines
back.
"""

from collections.abc import Iterator, Sequence
from math import log
from statistics import median, pstdev
from typing import Any

from tandem_operator.core.learn.engine_models import EngineModels, newest
from tandem_operator.core.learn.least_squares import Line, Triple, dot
from tandem_operator.core.memory import Memory
from tandem_operator.core.observe.role_pods import Starts
from tandem_operator.core.role import Role
from tandem_operator.sim.engines.profile_files import ESTIMATED_KV_TOKENS, MS

TRAFFIC, START_UP, PRIOR, ASSUMED = "traffic", "start-up", "prior", "assumed"
LEAST_PROMPT_TOKENS = 16
LEAST_CONTEXT_TOKENS = 16
LEAST_STEP_MS = 1e-3
FEW_STARTS = 3
USUAL_START_SIGMA = 0.1


class NotLearnedError(ValueError):
    """Too little was learned for a profile; the sentence says what is missing."""


def learned_profile(
    memory: Memory, *, pool: str, max_model_len: int, max_num_seqs: int
) -> dict[str, Any]:
    """Return the document of a profile file.

    Raises:
        NotLearnedError: nothing is known about a prefill or about a decode step.
    """
    revision = newest(memory.learned.engines)
    models = EngineModels() if revision is None else memory.learned.engines[revision]
    for known, what in ((models.service.known, "prefill"), (models.step.known, "decode step")):
        if not known:
            raise NotLearnedError(
                f"{pool} has not learned yet how long a {what} takes: no engine has told, and too"
                " few requests came"
            )
    service, step = models.service.coefficients(), models.step.coefficients()
    capacity = models.kv_capacity_tokens
    kv_tokens = ESTIMATED_KV_TOKENS if capacity is None else round(capacity)
    found: dict[str, Any] = {
        "source": f"learned by Tandem of pool {pool}, revision {revision}",
        "origin": {
            "prefill": _origin(models.service.line, service, measured=_measured(models, "service")),
            "decode_step": _origin(models.step.line, step, measured=_measured(models, "step")),
            "kv_capacity_tokens": {"from": ASSUMED if capacity is None else "engines"},
            "transfer": {"from": ASSUMED if memory.overhead_s is None else TRAFFIC},
            "cold_start": _starts_origin(memory.starts),
        },
        "prefill": {"prefill_isl": [], "prefill_ttft": []},
        "decode": {
            "x_kv_usage": [],
            "y_context_length": [],
            "z_itl": [],
            "max_kv_tokens": [kv_tokens],
        },
    }
    for tokens in _prompts(max_model_len):
        seconds = dot(service, (1.0, tokens, tokens * tokens / 2.0))
        found["prefill"]["prefill_isl"].append(tokens)
        found["prefill"]["prefill_ttft"].append(_ms(seconds))
    for context in (LEAST_CONTEXT_TOKENS, max(2 * LEAST_CONTEXT_TOKENS, max_model_len)):
        for batch in (1, max(2, max_num_seqs)):
            seconds = dot(step, (1.0, batch, batch * context))
            found["decode"]["x_kv_usage"].append(batch * context / kv_tokens)
            found["decode"]["y_context_length"].append(context)
            found["decode"]["z_itl"].append(_ms(seconds))
    if memory.overhead_s is not None:
        # The parts of TTFT besides queue and prefill: the transfer and one decode step.
        found["transfer_ms"] = max(0.0, memory.overhead_s - dot(step, (1.0, 1.0, 0.0))) / MS
        found["transfer_ms_per_token"] = 0.0
    starts_s = _seconds(memory.starts)
    if starts_s:
        found["cold_start"] = {
            "median_s": median(starts_s),
            "sigma": pstdev(map(log, starts_s)) if _enough(starts_s) else USUAL_START_SIGMA,
        }
    return found


def origins(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the source of each part of a document of `learned_profile`, in words."""
    origin = document["origin"]
    for key, name in (("prefill", "prefill"), ("decode_step", "decode step")):
        yield name, _line_words(origin[key])
    capacity = document["decode"]["max_kv_tokens"][0]
    known = origin["kv_capacity_tokens"]["from"] != ASSUMED
    yield (
        "KV cache of a replica",
        f"{capacity:,} tokens, "
        + ("told by engines" if known else "assumed: no engine told; set --kv-tokens"),
    )
    if origin["transfer"]["from"] == ASSUMED:
        yield "KV transfer", "assumed to take next to no time: not learned yet"
    else:
        yield "KV transfer", f"{document['transfer_ms']:.3g} ms, learned from TTFT at low load"
    start = origin["cold_start"]
    if start["from"] == ASSUMED:
        yield "cold start", "not seen yet; set --cold-start"
        return
    roles = ", ".join(f"{role} {start[role]:.3g} s" for role in Role if start.get(role) is not None)
    yield (
        "cold start",
        f"{document['cold_start']['median_s']:.3g} s, the median of {start['seen']} ({roles})",
    )


def _line_words(origin: dict[str, Any]) -> str:
    if origin["from"] == TRAFFIC:
        return f"learned from traffic, error {100.0 * origin['error_ratio']:.2g}%"
    third = "; what context costs is a first guess" if origin["context_from"] == PRIOR else ""
    if origin["from"] == START_UP:
        return f"as an engine measured itself at its start{third}"
    return "a first guess by the model's shape and its GPU's data sheet, not measured yet"


def _measured(models: EngineModels, which: str) -> bool:
    first = models.service.first if which == "service" else models.step.first
    return first is not None and first.measured


def _origin(line: Line, coefficients: Triple, *, measured: bool) -> dict[str, Any]:
    """Return the sources of a line's coefficients; `context_from` is that of the last one."""
    source = TRAFFIC if line.measured else START_UP if measured else PRIOR
    context = PRIOR
    if line.measured:
        context = TRAFFIC if coefficients[2] > 0.0 else "not told apart"
    return {
        "from": source,
        "context_from": context,
        "coefficients_s": list(coefficients),
        "rows": line.rows,
        "error_ratio": line.error_ratio if line.measured else None,
    }


def _starts_origin(starts: Starts) -> dict[str, Any]:
    seen = _seconds(starts)
    if not seen:
        return {"from": ASSUMED}
    medians = {
        role.value: median(s.seconds for s in measured)
        for role, measured in starts.measured.items()
        if measured
    }
    return {"from": "pods", "seen": len(seen), "sigma_known": _enough(seen), **medians}


def _seconds(starts: Starts) -> list[float]:
    return [start.seconds for measured in starts.measured.values() for start in measured]


def _enough(starts_s: Sequence[float]) -> bool:
    return len(starts_s) >= FEW_STARTS


def _prompts(longest: int) -> Sequence[int]:
    """Return lengths from short to the longest, each twice as long as the one before."""
    found = [max(4 * LEAST_PROMPT_TOKENS, longest)]
    while found[-1] // 2 >= LEAST_PROMPT_TOKENS:
        found.append(found[-1] // 2)
    return found[::-1]


def _ms(seconds: float) -> float:
    return max(LEAST_STEP_MS, seconds / MS)
