"""Packets that do not arrive and KV that is not where it was, on kind with real vLLM."""

from collections.abc import Callable

from e2e.faults import node
from e2e.faults.kind_engines import replace_decode_fleet
from e2e.faults.node import Undo
from e2e.faults.on_kind import Disturbance, Scene, kind_scenario
from e2e.faults.scenario import Family, Loss
from tandem_contracts.names import SIDE_CHANNEL_PORT
from tandem_operator.core.role import Role


def _cut_roles(one: str, other: str, *, port: int | None = None) -> Callable[[Scene], Undo]:
    def begin(scene: Scene) -> Undo:
        ends = scene.addresses(one), scene.addresses(other)
        return node.cut([(a, b) for a in ends[0] for b in ends[1]], port=port)

    return begin


def _kill_prefill_core(scene: Scene) -> None:
    node.kill(node.engine_core(scene.pod_of(Role.PREFILL), namespace=scene.namespace))


def _cut(seconds: int, *, port: int | None = None, quick: bool = False) -> Disturbance:
    return Disturbance(
        _cut_roles(Role.PREFILL, Role.DECODE, port=port),
        lasts_s=seconds,
        load_s=seconds + (20.0 if quick else 35.0),
        limit_s=150.0,
    )


NETWORK = (
    *(
        kind_scenario(
            f"prefill-decode-cut-{seconds}",
            Family.NETWORK,
            f"Nothing passes between prefill and decode pods for {seconds} s.",
            _cut(seconds, quick=seconds == 20),
            undone="It passes again.",
            quick=seconds == 20,
        )
        for seconds in (20, 50)
    ),
    kind_scenario(
        "side-channel-cut-50",
        Family.NETWORK,
        "Only NIXL's side channel is cut for 50 s: transfers that are set up go on.",
        _cut(50, port=SIDE_CHANNEL_PORT),
        undone="It passes again.",
    ),
    kind_scenario(
        "transfer-peer-lost",
        Family.NETWORK,
        "The engine core of a prefill pod is ended with SIGKILL while decode pods pull from it.",
        Disturbance(_kill_prefill_core),
        undone="The kubelet starts the container again.",
        names=r"EnginesHealthy=False: .*prefill pod",
    ),
    kind_scenario(
        "decode-fleet-replaced",
        Family.NETWORK,
        "All decode pods are replaced at once, while prefill pods hold KV for them.",
        Disturbance(replace_decode_fleet, load_s=75.0, blind_s=2.0, limit_s=150.0, deletes=2),
        undone="Their Deployment makes others.",
        may_lose=Loss.BEGUN,
        names=r"decode",
    ),
)
