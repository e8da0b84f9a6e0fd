"""Who else sets a pool's replicas: rivals, owners of External roles, autoscalers in vain."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from tandem_operator.api.v1alpha1.pool import PoolSpec
from tandem_operator.core.role import Role
from tandem_operator.kube.autoscalers import Autoscalers
from tandem_operator.kube.client import Kube
from tandem_operator.kube.counts import asked_of, count_is_ours, managed
from tandem_operator.workloads.observed.rivals import Rivals
from tandem_operator.workloads.pool_names import PoolName
from tandem_operator.workloads.pool_spec import external_roles
from tandem_operator.workloads.world import World


class CountOwners:
    """Looks for them once a pass."""

    def __init__(self, kube: Kube, *, clock: Callable[[], float]) -> None:
        self._autoscalers = Autoscalers(kube, clock=clock)

    async def met(
        self,
        world: World,
        spec: PoolSpec | None,
        *,
        rivals: Rivals,
        written: Mapping[str, int],
        now_s: float,
    ) -> World:
        """The world with what they ask and do.

        Args:
            world: the pool's children as they were read.
            spec: the pool's, if it can be read.
            rivals: the fights of the passes before.
            written: counts that the last pass wrote, by component.
            now_s: epoch seconds.
        """
        name = PoolName(*(world.pool["metadata"][key] for key in ("namespace", "name", "uid")))
        asked = asked_of(world.children, spec, name=name)
        # A role whose PoolRole asks for the first time still has the count of its owner before.
        followed = {role for role in asked if role in written or rivals.about(role)}
        ours = managed(spec) | followed
        fights = rivals.look(world.children, ours=ours, is_ours=count_is_ours, now_s=now_s)
        where = {"namespace": name.namespace, "pool": name.name}
        targetless = () if spec is None else set(Role) - set(external_roles(spec))
        return replace(
            world,
            asked=asked,
            rivals=await self._autoscalers.named(fights, **where),
            waiting=await self._autoscalers.waiting(targetless, **where),
        )
