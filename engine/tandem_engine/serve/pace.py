"""The intervals of the launcher's looks at vLLM, and the time for its answers."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LauncherPace:
    """Seconds between looks, and for an answer."""

    health_poll_s: float = 0.5
    answer_s: float = 5.0
    watch_s: float = 2.0
    drain_poll_s: float = 0.25
    last_words_s: float = 5.0
