"""Latency bounds for the usual kinds of traffic, so that nobody has to start from a blank SLO.

TPOT follows what consumes the tokens: an editor that completes while one types, a person who
reads (about 5 tokens/s; 50 ms leaves room), an agent that waits for whole answers, a queue.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Preset(StrEnum):
    """A kind of traffic with bounds of its own."""

    COMPLETION = "Completion"
    CHAT = "Chat"
    AGENT = "Agent"
    BATCH = "Batch"


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetBounds:
    """What a preset fills in where the SLO says nothing."""

    ttft_s: float
    ttft_s_per_thousand_prompt_tokens: float
    tpot_s: float


PRESETS: Mapping[Preset, PresetBounds] = {
    Preset.COMPLETION: PresetBounds(ttft_s=0.3, ttft_s_per_thousand_prompt_tokens=0.1, tpot_s=0.03),
    Preset.CHAT: PresetBounds(ttft_s=0.5, ttft_s_per_thousand_prompt_tokens=0.2, tpot_s=0.05),
    Preset.AGENT: PresetBounds(ttft_s=1.0, ttft_s_per_thousand_prompt_tokens=0.3, tpot_s=0.025),
    Preset.BATCH: PresetBounds(ttft_s=30.0, ttft_s_per_thousand_prompt_tokens=1.0, tpot_s=0.2),
}


def preset_sentence() -> str:
    """The presets in words, for descriptions."""
    return "; ".join(
        f"{preset}: TTFT {bounds.ttft_s:g}s + {bounds.ttft_s_per_thousand_prompt_tokens:g}s per"
        f" 1,000 prompt tokens, TPOT {bounds.tpot_s * 1000:g}ms"
        for preset, bounds in PRESETS.items()
    )
