"""The status of a PoolRole: values for an autoscaler, and whether the fleet gets its count."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from tandem_operator.api import (
    EFFECTIVE,
    PoolRoleStatus,
    RoleCondition,
)
from tandem_operator.core.decision import Decision
from tandem_operator.core.role import Role
from tandem_operator.workloads.effects import Event, EventType
from tandem_operator.workloads.labels import selector_of
from tandem_operator.workloads.observed.asked_counts import AskedCount, pool_roles_by_role
from tandem_operator.workloads.pool_names import PoolName
from tandem_operator.workloads.status.condition_now import FALSE, TRUE, UNKNOWN, Statement
from tandem_operator.workloads.status.conditions import capital, transition_time
from tandem_operator.workloads.world import Object, Rival, World

LIMITED, CONTESTED, NOT_ASKED = "Limited", "Contested", "NotAsked"
IN_FORCE, POOL_NOT_ACCEPTED = "InForce", "PoolNotAccepted"


@dataclass(frozen=True, slots=True)
class RoleReport:
    """The changed status of one PoolRole.

    Attributes:
        found: the live object.
        status: the status to write; `None` if nothing changed.
    """

    found: Object
    status: Mapping[str, object] | None
    events: tuple[Event, ...]


def role_reports(
    world: World,
    name: PoolName,
    *,
    asked: Mapping[Role, AskedCount],
    decision: Decision | None,
    in_force: bool,
    now_s: float,
) -> tuple[RoleReport, ...]:
    """Return the reports of every PoolRole of the pool."""
    return tuple(
        _report(
            world,
            name,
            role,
            child,
            recommended=None if decision is None else decision.roles[role].to,
            verdict=verdict_of(
                name, role, asked.get(role), rival=world.rivals.get(role), in_force=in_force
            ),
            now_s=now_s,
        )
        for role, child in pool_roles_by_role(world.children, name).items()
    )


def _report(
    world: World,
    name: PoolName,
    role: Role,
    found: Object,
    *,
    recommended: int | None,
    verdict: tuple[str, Statement],
    now_s: float,
) -> RoleReport:
    before = _before(found)
    status, why = verdict
    known = before.condition(EFFECTIVE)
    generation = int(found["metadata"].get("generation", 1))
    now = RoleCondition(
        type=EFFECTIVE,
        status=status,
        observed_generation=generation,
        last_transition_time=transition_time(known, status, now_s=now_s),
        reason=why.reason,
        message=why.message,
    )
    written = PoolRoleStatus(
        observed_generation=generation,
        replicas=_pods(world, name.child(role)),
        recommended=before.recommended if recommended is None else recommended,
        selector=",".join(f"{key}={value}" for key, value in selector_of(name, role).items()),
        conditions=[now],
    ).to_object()
    news = None if written == (found.get("status") or {}) else written
    return RoleReport(found, news, tuple(_events(known, now)))


def _events(before: RoleCondition | None, now: RoleCondition) -> Iterator[Event]:
    was_bad = before is not None and before.status == FALSE
    if now.status == FALSE and (not was_bad or before is None or before.reason != now.reason):
        yield Event(reason=now.reason, message=now.message, type=EventType.WARNING)
    elif was_bad and now.status == TRUE:
        yield Event(reason=now.reason, message=now.message)


def verdict_of(
    name: PoolName, role: Role, asked: AskedCount | None, *, rival: Rival | None, in_force: bool
) -> tuple[str, Statement]:
    """Return whether the fleet gets the count that its owner asks for, and why not."""
    child = name.child(role)
    if not in_force:
        message = f"InferencePool {name.name} is not accepted, so Tandem changes no replicas of it."
        return FALSE, Statement(POOL_NOT_ACCEPTED, message)
    if rival is not None and rival.left_alone:
        message = (
            f"{capital(rival.who)} changes the replicas of Deployment {child}"
            f" repeatedly. Let it scale PoolRole {child} instead, or remove it."
        )
        return FALSE, Statement(CONTESTED, message)
    if asked is None:
        message = (
            f"No autoscaler or person has changed spec.replicas, so it follows Deployment {child}."
        )
        return UNKNOWN, Statement(NOT_ASKED, message)
    if asked.limit is not None:
        less = "more" if asked.to > asked.asked else "fewer"
        message = (
            f"The fleet gets {less} replicas than spec.replicas asks for, because of {asked.limit}"
            f" of InferencePool {name.name}."
        )
        return FALSE, Statement(LIMITED, message)
    return TRUE, Statement(IN_FORCE, "The fleet gets the replicas that spec.replicas asks for.")


def _pods(world: World, deployment: str) -> int:
    """Return the pods of a Deployment that are not leaving, as its own scale counts them."""
    for child in world.children:
        if child.get("kind") == "Deployment" and child["metadata"]["name"] == deployment:
            return int((child.get("status") or {}).get("replicas") or 0)
    return 0


def _before(found: Object) -> PoolRoleStatus:
    try:
        return PoolRoleStatus.model_validate(found.get("status") or {}, by_name=False)
    except ValidationError:
        # Written by another version of the schema: it is replaced as a whole.
        return PoolRoleStatus()
