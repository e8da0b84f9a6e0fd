"""What the simulated router has outstanding at one pod."""

from tandem_operator.sim.cluster.pods import SimulatedPod
from tandem_operator.sim.engines.decode_pod import DecodePod
from tandem_operator.sim.engines.prefill_pod import PrefillPod
from tandem_operator.sim.flight import SimulatedFlight
from tandem_routing.outstanding import Outstanding

REVISION = ""


class PrefillSide(Outstanding):
    """What the router has outstanding at one prefill pod; all pods are of one revision."""

    __slots__ = ("pod",)
    revision = REVISION

    def __init__(self, pod: SimulatedPod[PrefillPod]) -> None:
        super().__init__(pod.name)
        self.pod = pod


class DecodeSide(Outstanding):
    """What the router has outstanding at one decode pod; `whole` compute their prompt there."""

    __slots__ = ("pod", "whole")

    def __init__(self, pod: SimulatedPod[DecodePod]) -> None:
        super().__init__(pod.name)
        self.pod = pod
        self.whole: list[SimulatedFlight] = []

    def settle(self) -> None:
        """Take note of the prompts that are computed by now."""
        for flight in [each for each in self.whole if each.first_s is not None]:
            self.whole.remove(flight)
            self.stalls.end()
