"""The traffic on which steps are taken out: one case or more of each family, as Tandem ships."""

from benchmarks.promise.cases import Case
from benchmarks.promise.quick import CHAT, QUICK, SPAN_S, mix
from benchmarks.promise.traffic import Family, Traffic

_QUICK = {case.name: case for case in QUICK}
_RAMP = Traffic(Family.RAMP, 8.0, 30.0, SPAN_S, 31, CHAT, period_s=300.0, at_s=1200.0)
_PROMPTS = Traffic(Family.SHIFT, 15.0, 15.0, SPAN_S, 32, CHAT, after=mix(5000, 250), at_s=1200.0)

FAMILIES: dict[str, tuple[Case, ...]] = {
    "jumps": (_QUICK["jumps-8-40"], _QUICK["jumps-cold-180"]),
    "spikes": (_QUICK["spikes-code"],),
    "level": (_QUICK["poisson"],),
    "waves": (_QUICK["sine-12m"], _QUICK["wave-crest"]),
    "one event": (
        _QUICK["step"],
        Case("ramp", _RAMP, 0.99, event_s=1200.0),
    ),
    "agents": (_QUICK["agents"],),
    "longer": (
        _QUICK["longer-answers"],
        Case("longer-prompts", _PROMPTS, 0.99, event_s=1200.0),
    ),
}
CASES: dict[str, Case] = {case.name: case for cases in FAMILIES.values() for case in cases}
