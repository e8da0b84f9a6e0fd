"""One pass over one pool: read everything, plan purely, write the plan, report.

A pass reads all input of its decision itself. If the API server does not answer, the pass fails,
nothing is written, and the queue tries again: no write is no change.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from tandem_operator.api import InferencePool
from tandem_operator.api.v1alpha1.pool import PoolSpec
from tandem_operator.api.v1alpha1.scaling import Metrics, MetricsSource
from tandem_operator.kube.apply import (
    ApplyReport,
    ChildWriter,
    PreviousPoolRemainsError,
)
from tandem_operator.kube.client import ApiServerError, Kube, Object
from tandem_operator.kube.count_owners import CountOwners
from tandem_operator.kube.counts import (
    as_if_ours,
    replicas_last_decided,
)
from tandem_operator.kube.engine_keys import EngineKeys
from tandem_operator.kube.events import EventWriter
from tandem_operator.kube.gateway_routes import apply_route
from tandem_operator.kube.kinds import HTTP_ROUTE, POD_MONITOR, POOL, POOL_ROLE
from tandem_operator.kube.nodes import Cordons
from tandem_operator.kube.operators import Operators
from tandem_operator.kube.quotas import Sharing
from tandem_operator.kube.read_children import ChildReader
from tandem_operator.kube.read_pods import PodReader
from tandem_operator.kube.status_writer import PoolGoneError, StatusWriter
from tandem_operator.kube.write_counts import write_counts
from tandem_operator.metrics.collect import Collected, Collector
from tandem_operator.metrics.exported import Exported
from tandem_operator.metrics.scrape_targets import targets_of
from tandem_operator.metrics.shown_pool import shown_pool
from tandem_operator.metrics.source import RouterTarget
from tandem_operator.workloads.builders.engine_key import runs_with_key
from tandem_operator.workloads.labels import DELETION_COST_ANNOTATION
from tandem_operator.workloads.observed.rivals import Rivals
from tandem_operator.workloads.observed.troubles import pod_trouble
from tandem_operator.workloads.pass_basis import parsed_pool
from tandem_operator.workloads.pass_plan import (
    EventType,
    PassPlan,
    WriteOutcome,
    conclude,
    plan,
)
from tandem_operator.workloads.pool_names import PoolName, key_of
from tandem_operator.workloads.pool_spec import external_roles
from tandem_operator.workloads.world import Installation, World

log = logging.getLogger(__name__)

DELETED_POOL_REMAINS_S = 2.0
"""Time until the next look while a deleted pool of the same name is still being collected."""
OTHER_OPERATOR_S = 10.0
"""Time until the next look at whether the operator that runs a pool still exists."""
CLAIMED_MEANWHILE_S = 1.0


class PoolKey(NamedTuple):
    """The namespace and name of one pool."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class _Refusal:
    """A refusal of a pool's memory by the API server."""

    at_s: float
    why: str


@dataclass(frozen=True, slots=True)
class _Known:
    """The memory of this process about a pool between passes."""

    uid: str
    memory: Any
    refusal: _Refusal | None = None
    """The refusal of the memory, until it is accepted."""
    replicas: Mapping[str, int] = field(default_factory=dict)
    """Counts that the last pass wrote, by component; absent if another manager sets them."""
    problems: tuple[str, ...] = ()
    metrics_source: MetricsSource = MetricsSource.DIRECT
    rivals: Rivals = field(default_factory=Rivals)
    logged_counts: tuple[int, ...] = ()
    """The counts of the last decision that was logged."""


class PoolLoop:
    """The maker of passes; it holds only state that a restarted process could read again."""

    def __init__(
        self,
        kube: Kube,
        collector: Collector,
        *,
        installation: Installation,
        exported: Exported,
        instance: str,
        now: Callable[[], float],
        clock: Callable[[], float],
        listen: Callable[["PoolKey", Iterable[RouterTarget]], None] = lambda _key, _routers: None,
    ) -> None:
        self._kube = kube
        self._listen = listen
        self._collector = collector
        self._installation = installation
        self._exported = exported
        self._now = now
        without = frozenset() if installation.gateway_routes else frozenset({HTTP_ROUTE})
        self._children = ChildReader(kube, without=without, clock=clock)
        self._pods = PodReader(kube)
        self._writer = ChildWriter(kube)
        self._keys = EngineKeys(kube, clock=clock)
        self._status = StatusWriter(kube, clock=clock)
        self._events = EventWriter(kube, instance=instance, now=now)
        self._sharing = Sharing(kube, clock=clock)
        self._cordons = Cordons(kube, clock=clock)
        self._owners = CountOwners(kube, clock=clock)
        self._operators = Operators(kube, own=installation.lease, clock=clock)
        self._run_by: dict[PoolKey, str] = {}
        self._known: dict[PoolKey, _Known] = {}

    def children_changed(self, key: PoolKey) -> None:
        """Note that a watch saw one of the pool's children change."""
        self._children.invalidate(namespace=key.namespace, pool=key.name)

    async def work(self, key: PoolKey) -> float | None:
        """Make one pass; return the seconds until the next, `None` if the pool is gone."""
        pool = await self._kube.get(POOL, namespace=key.namespace, name=key.name)
        if pool is None or "deletionTimestamp" in pool["metadata"]:
            # The garbage collector deletes its children by ownerReferences, with or without an
            # operator.
            self._forget(key)
            self._run_by.pop(key, None)
            return None
        other = await self._operators.other(pool)
        if other is not None:
            await self._leave_to(other, key, pool)
            return OTHER_OPERATOR_S
        claimed = await self._operators.claim(pool)
        if claimed is None:
            return CLAIMED_MEANWHILE_S
        pool = claimed
        before = self._run_by.pop(key, None)
        where = {"namespace": key.namespace, "pool": key.name}
        if before is not None:
            log.warning("pool taken over", extra={**where, "from": before})
        parsed = parsed_pool(pool)
        spec = parsed.spec if isinstance(parsed, InferencePool) else None
        known = self._known.get(key)
        if known is None or known.uid != pool["metadata"]["uid"]:
            self._forget(key)
            uid = pool["metadata"]["uid"]
            known = _Known(uid=uid, memory=None, replicas=replicas_last_decided(pool, spec))
        resource = None if spec is None else spec.engine.gpu_resource
        gpus = None if resource is None else await self._sharing.gpus(key.namespace, resource)
        world, collected, routers = await self._observe(pool, known, spec)
        world = await self._owners.met(
            world, spec, rivals=known.rivals, written=known.replicas, now_s=self._now()
        )
        # No other pass may come between the reading of the claims and this pool's own claim.
        quota = self._sharing.quota(*key, gpus=gpus)
        world = replace(world, parsed=parsed, quota=quota)
        planned = plan(as_if_ours(world, known.replicas), now_s=self._now())
        self._sharing.note(*key, claim=planned.claim, resource=resource)
        if planned.unreadable is not None:
            extra = {**where, "why": str(planned.unreadable)}
            log.warning("memory unreadable", extra=extra, exc_info=planned.unreadable)
        try:
            outcome = await self._execute(planned, world, known)
        except PreviousPoolRemainsError as error:
            log.info("waiting", extra={**where, "why": str(error)})
            return DELETED_POOL_REMAINS_S
        refusal = await self._store(planned, outcome, PoolName.of(pool), before=known.refusal)
        outcome = replace(outcome, unstored=None if refusal is None else refusal.why)
        concluded = conclude(planned, outcome, world=world, now_s=self._now())
        self._listen(key, routers if concluded.asleep else ())
        self._known[key] = replace(
            known,
            memory=concluded.memory,
            refusal=refusal,
            replicas=concluded.replicas,
            problems=collected.problems,
            metrics_source=collected.source,
            logged_counts=_counts(concluded),
        )
        try:
            await self._tell(world, concluded, collected, before=known)
        except PoolGoneError as error:
            log.info("pool gone meanwhile", extra={**where, "why": str(error)})
            return DELETED_POOL_REMAINS_S
        return concluded.requeue_after_s

    async def _leave_to(self, other: str, key: PoolKey, pool: Object) -> None:
        """Write nothing of a pool that another operator runs, and log that once."""
        self._forget(key)
        if self._run_by.get(key) == other:
            return
        self._run_by[key] = other
        own = self._installation.lease or "without a Lease"
        where = {"namespace": key.namespace, "pool": key.name}
        log.warning("another operator runs the pool", extra={**where, "other": other})
        await self._events.post(
            pool,
            reason="OtherOperator",
            note=(
                f"Operator {other} runs this pool, so operator {own} writes nothing."
                " Uninstall one of the two, or give each its own namespaces (watchNamespaces)."
            ),
            warning=True,
        )

    async def _observe(
        self, pool: Object, known: _Known, spec: PoolSpec | None
    ) -> tuple[World, Collected, tuple[RouterTarget, ...]]:
        name = PoolName.of(pool)
        children = await self._children.read(
            namespace=name.namespace,
            pool=name.name,
            uid=name.uid,
            pool_roles=spec is not None and bool(external_roles(spec)),
        )
        pods = await self._pods.read(namespace=name.namespace, pool=name.name, children=children)
        now_s = self._now()
        targets = targets_of(pods, namespace=name.namespace, pool=name.name, now_s=now_s)
        # If a spec cannot be read otherwise, its pods are still measured.
        metrics = Metrics() if spec is None else spec.metrics
        collected = await self._collector.collect(targets, metrics, now_s=now_s)
        installation = replace(
            self._installation,
            pod_monitors=await self._children.serves(POD_MONITOR, namespace=name.namespace),
            serves_routes=await self._children.serves(HTTP_ROUTE, namespace=name.namespace),
            pool_roles=await self._children.serves(POOL_ROLE, namespace=name.namespace),
        )
        world = World(
            pool=pool,
            installation=installation,
            children=children,
            pods=pods,
            engines=collected.engines,
            routers=collected.routers,
            router_pods=len(targets.routers),
            latency=collected.latency,
            metrics_source=collected.source,
            prometheus_passed_over=collected.passed_over is not None,
            prometheus_fault=collected.fault,
            memory=known.memory,
            memory_refused_s=None if known.refusal is None else known.refusal.at_s,
            cordoned=await self._cordons.names(),
        )
        return world, collected, targets.routers

    async def _execute(self, planned: PassPlan, world: World, known: _Known) -> WriteOutcome:
        observed = {key_of(child): child for child in world.children}
        name = PoolName.of(world.pool)
        if planned.memory_object is not None and key_of(planned.memory_object) not in observed:
            taken_name = await self._writer.stranger(
                planned.memory_object, observed, pool_uid=name.uid
            )
            if taken_name is not None:
                return WriteOutcome(blocked=taken_name)
        rekeyed = False
        if planned.children:
            missed = any(name.engine_key in (pod_trouble(pod) or "") for pod in world.pods)
            key = await self._keys.ensure(name, missed=missed)
            if key.refused is not None:
                return WriteOutcome(refused=key.refused)
            rekeyed = key.made and any(map(runs_with_key, world.pods))
        report = await self._writer.apply(planned.children, observed, pool_uid=name.uid)
        self._note(report, name)
        if report.refused or report.blocked:
            return WriteOutcome(refused=report.refused, blocked=report.blocked, rekeyed=rekeyed)
        taken = list(report.taken)
        await self._write_costs(planned, name)
        reports = await write_counts(planned, observed, name, kube=self._kube, writer=self._writer)
        for counted in reports:
            self._count(counted)
            for each in counted.taken:
                component = each.child[1].removeprefix(f"{name.name}-")
                # Until its PoolRole asks for the first time, the former owner of the count loses
                # nothing.
                first_asked = component in world.asked and component not in known.replicas
                if not first_asked or known.rivals.about(component):
                    known.rivals.taken(component, each.conflicts[0].manager, now_s=self._now())
                    taken.append(each)
        if planned.keep is not None:
            await self._writer.prune(world.children, keep=planned.keep, pool_uid=name.uid)
        outcome = WriteOutcome(
            taken=tuple(each.taken_back for each in taken),
            left=tuple(each.left_alone for each in report.left),
            rekeyed=rekeyed,
        )
        routed, outcome = await apply_route(
            self._writer, planned.route, observed, outcome, pool_uid=name.uid
        )
        self._note(routed, name)
        return outcome

    async def _store(
        self, planned: PassPlan, outcome: WriteOutcome, name: PoolName, *, before: _Refusal | None
    ) -> _Refusal | None:
        """Store the memory if it is due; a refusal does not stop the pass."""
        if planned.memory_object is None or outcome.refused or outcome.blocked:
            return before
        try:
            stored = await self._writer.overwrite(planned.memory_object)
        except ApiServerError as error:
            if before is None:
                log.warning("memory refused", extra={**_about(name), "why": str(error)})
            return _Refusal(self._now(), error.message)
        self._children.replace(stored, namespace=name.namespace, pool=name.name)
        return None

    async def _write_costs(self, planned: PassPlan, name: PoolName) -> None:
        for each in planned.costs:
            await self._kube.annotate_pod(
                namespace=name.namespace,
                name=each.pod,
                annotations={DELETION_COST_ANNOTATION: str(each.cost)},
            )

    async def _tell(
        self, world: World, concluded: PassPlan, collected: Collected, *, before: _Known
    ) -> None:
        pool = dict(world.pool)
        if concluded.status is not None:
            await self._status.write(pool, concluded.status)
        told = [(pool, event) for event in concluded.events]
        for report in concluded.roles:
            if report.status is not None:
                await self._status.write_role(report.found, report.status)
            told += [(report.found, event) for event in report.events]
        for about, event in told:
            await self._events.post(
                about,
                reason=event.reason,
                note=event.message,
                warning=event.type is EventType.WARNING,
            )
        where = {"namespace": pool["metadata"]["namespace"], "pool": pool["metadata"]["name"]}
        if collected.problems != before.problems:
            log.info("metrics changed", extra={**where, "missing": collected.problems})
        if collected.source != before.metrics_source:
            why = {"source": collected.source.value, "passed_over": collected.passed_over}
            log.info("metrics source changed", extra={**where, **why})
        self._exported.show(shown_pool(world, concluded, collected, at_s=self._now()))
        if concluded.decision is None:
            return
        if _counts(concluded) != before.logged_counts:
            log.info("decision", extra={**where, "sentence": concluded.decision.sentence})
        else:
            log.debug("decision", extra={**where, "sentence": concluded.decision.sentence})

    def _note(self, report: ApplyReport, name: PoolName) -> None:
        self._count(report)
        if report.written:
            self._children.invalidate(namespace=name.namespace, pool=name.name)
            log.info("children applied", extra={**_about(name), "children": report.written})

    def _count(self, report: ApplyReport) -> None:
        if report.conflicts:
            self._exported.conflicts.inc(report.conflicts)

    def _forget(self, key: PoolKey) -> None:
        self._sharing.note(*key, claim=None)
        self._listen(key, ())
        known = self._known.pop(key, None)
        if known is None:
            return
        self._status.forget(known.uid)
        self._operators.forget(known.uid)
        self._pods.forget(namespace=key.namespace, pool=key.name)
        self._keys.forget(known.uid)
        self._writer.forget(namespace=key.namespace, pool=key.name)
        self._collector.forget(namespace=key.namespace, pool=key.name)
        self._children.invalidate(namespace=key.namespace, pool=key.name)
        self._exported.forget(namespace=key.namespace, pool=key.name)


def _counts(planned: PassPlan) -> tuple[int, ...]:
    return tuple(each.to for each in planned.decision.roles.values()) if planned.decision else ()


def _about(name: PoolName) -> dict[str, str]:
    """Return the fields of a log line about a pool."""
    return {"namespace": name.namespace, "pool": name.name}
