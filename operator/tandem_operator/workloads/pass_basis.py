"""The input of a pass: the pool, its templates and its live objects, read once."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tandem_operator.api import InferencePool, InvalidPoolError, parse_pool
from tandem_operator.core.guard.rollout import with_reserve
from tandem_operator.core.role import Role
from tandem_operator.core.spec import PoolSpec
from tandem_operator.workloads.builders.children import templates_of
from tandem_operator.workloads.builders.engine_key import roles_with_key
from tandem_operator.workloads.builders.pod_templates import Template
from tandem_operator.workloads.checks.acceptance import objections
from tandem_operator.workloads.checks.pod_schema import template_faults
from tandem_operator.workloads.objection import Objection
from tandem_operator.workloads.observed.asked_counts import AskedCount, asked_counts, following
from tandem_operator.workloads.observed.live_objects import LiveObjects, see
from tandem_operator.workloads.observed.turnover import turnovers
from tandem_operator.workloads.pass_counts import left_alone
from tandem_operator.workloads.pool_names import PoolName
from tandem_operator.workloads.pool_spec import policy_of
from tandem_operator.workloads.schedule_periods import periods_around
from tandem_operator.workloads.world import World


@dataclass(frozen=True, slots=True)
class PassBasis:
    """A pool with a valid spec, read once for the whole pass.

    Attributes:
        templates: pod templates by component.
        seen: the live objects. Counts that a person set on a Managed role are taken back. Counts
            that owners of External roles ask for are set.
        live: replicas of the Deployments before this pass writes any.
        asked: counts that the owners of External roles ask for, and get.
        policy: the core's view of the spec. A role that is left to a rival is not managed in it,
            and its budget still contains a rollout's reserve.
        mistyped: fields of the spec's pod templates that Kubernetes does not know.
    """

    name: PoolName
    pool: InferencePool
    templates: Mapping[str, Template]
    seen: LiveObjects
    live: Mapping[str, int]
    asked: Mapping[Role, AskedCount]
    policy: PoolSpec
    mistyped: tuple[Objection, ...]


def parsed_pool(pool: Mapping[str, Any]) -> InferencePool | InvalidPoolError:
    """Return the pool as the API's types, or its error."""
    try:
        return parse_pool(pool)
    except InvalidPoolError as error:
        return error


def read_pool(world: World, *, now_s: float) -> PassBasis | tuple[str, ...]:
    """The pool read for a pass, or what is wrong with it."""
    pool = parsed_pool(world.pool) if world.parsed is None else world.parsed
    if isinstance(pool, InvalidPoolError):
        return (str(pool),)
    name = PoolName.of(world.pool)
    wrong = objections(pool.spec, world.installation, name=name)
    if wrong:
        return tuple(map(str, wrong))
    seen = see(world, name)
    templates = templates_of(
        pool,
        name=name,
        installation=world.installation,
        with_key=roles_with_key(world, name),
    )
    policy = _policy(pool, world, seen, now_s=now_s)
    rollout_gpus = with_reserve(policy, turnovers(seen, templates)).rollout_gpus
    given = asked_counts(world.asked, policy, seen, rollout_gpus=rollout_gpus)
    asked = {
        role: each
        for role, each in given.items()
        if role in seen.replicas and not left_alone(world, role)
    }
    return PassBasis(
        name=name,
        pool=pool,
        templates=templates,
        seen=following(seen, asked),
        live=seen.replicas,
        asked=asked,
        policy=policy,
        mistyped=template_faults(pool.spec),
    )


def _policy(pool: InferencePool, world: World, seen: LiveObjects, *, now_s: float) -> PoolSpec:
    """The policy now, with roles that a rival is left alone with as those of another owner."""
    policy = policy_of(pool.spec)
    roles = {
        role: replace(
            spec,
            managed=spec.managed and not left_alone(world, role),
            gpus_per_replica=seen.gpus_per_replica(role, spec),
        )
        for role, spec in policy.roles.items()
    }
    periods = periods_around(pool.spec.scaling.schedules or (), now_s)
    return replace(policy, roles=roles, periods=periods)
