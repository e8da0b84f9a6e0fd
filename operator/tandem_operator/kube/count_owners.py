"""Other owners of a pool's replicas: rivals, owners of External roles, useless autoscalers."""

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
    """The finder of these owners; it looks once a pass."""

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
        """Return the world with the counts that others ask for and set.

        Args:
            world: the pool's children as read.
            spec: the pool's spec, if it can be read.
            rivals: the fights of earlier passes.
            written: counts that the last pass wrote, by component.
            now_s: epoch seconds.
        """
        name = PoolName.of(world.pool)
        asked = asked_of(world.children, spec, name=name)
        # A role whose PoolRole asks for the first time still has the count of its former owner.
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
