"""The assumed content of the prefix caches of prefill pods."""

from collections.abc import Callable

from tandem_contracts.router_settings import RouterSettings
from tandem_engine.router.pods.pod import Pod
from tandem_routing.prefix_index import USUAL_CAPACITY_TOKENS, Prefix, PrefixIndex


class PrefillCaches(PrefixIndex[Pod]):
    """The prompts that were sent to prefill pods, and that the pods should still have.

    It remembers none while a pool does not place by them.

    Args:
        tell: sends each computed prompt to the other routers; `None`: nothing is sent.
    """

    def __init__(self, *, tell: Callable[[str, Prefix], None] | None = None) -> None:
        super().__init__()
        self._tell = tell
        self._in_use = True
        self._heard: RouterSettings | None = None

    def sent(self, pod: Pod, prefix: Prefix) -> None:
        """Record that `pod` was sent a prompt."""
        if self._in_use:
            super().sent(pod, prefix)

    def ended(self, pod: Pod, prefix: Prefix, *, computed: bool) -> None:
        """Record that a prompt has left `pod`; if it was `computed`, tell the other routers."""
        if not self._in_use:
            return
        super().ended(pod, prefix, computed=computed)
        if computed and prefix.marks and self._tell is not None:
            self._tell(pod.name, prefix)

    def heard(self, pod: Pod, prefix: Prefix) -> None:
        """Record that `pod` computed a prompt for another router."""
        if self._in_use:
            super().heard(pod, prefix)

    def hear(self, settings: RouterSettings) -> None:
        """Use the cache size from the operator; only a share of it if other routers send no news.

        Both roles have the same engines, unless a pool says otherwise.
        """
        if settings is self._heard:
            return
        self._heard = settings
        self._in_use = settings.prefix_placement
        if not self._in_use:
            self.forget_all()
        pace = settings.decode
        self.capacity_tokens = USUAL_CAPACITY_TOKENS
        if pace is not None and pace.kv_capacity_tokens is not None:
            share = pace.routers if self._tell is None else 1
            self.capacity_tokens = pace.kv_capacity_tokens / share
