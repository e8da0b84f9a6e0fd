"""Plays on a pool with real vLLM on kind: load, and in the middle of it a disturbance."""

import asyncio
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from benchmarks.load.generator import LoadGenerator
from benchmarks.load.plan import PlannedRequest
from benchmarks.load.record import Outcome, Record
from e2e.cluster import names
from e2e.commands import apply, kubectl
from e2e.demo import setup
from e2e.faults import held, node
from e2e.faults.evidence import Evidence, Fate, Play, Request, Stage
from e2e.faults.node import Undo
from e2e.faults.reference import Question, Reference, record_reference
from e2e.faults.scenario import Family, Loss, Scenario, Where
from e2e.faults.watch import Watch
from e2e.pools import Pool, wait_until
from e2e.trial import NAME, NAMESPACE, open_door, trial_manifest
from tandem_operator.core.role import Role

COUNTS = {"prefill": 2, "decode": 2, "router": 2}
BUDGET_GPUS = 5
"""The GPUs of the fleets, and room for one pod more while one is replaced."""
KV_MEMORY = "16Mi"
"""Room for about 20 prompts: freed KV is soon another prompt's, so that a mistake shows."""
RATE_RPS = 2.0
STREAMED_SHARE = 0.7
MODEL = "tiny"
FROM_PROMETHEUS = "read from Prometheus"


@dataclass(slots=True)
class Scene:
    """A running pool, and notes for a disturbance.

    Attributes:
        broken: promises of the scenario's own that were seen to be broken.
    """

    pool: Pool
    url: str
    random: Random
    broken: list[str] = field(default_factory=list)

    @property
    def namespace(self) -> str:
        """Return the namespace of the pool."""
        return self.pool.namespace

    def pod_of(self, role: str) -> str:
        """Return the name of some Ready pod of a role."""
        return self.random.choice([face.name for face in self.pool.pods(role) if face.ready])

    def addresses(self, role: str) -> list[str]:
        """Return the IPs of a role's pods."""
        return [
            node.pod_address(face.name, namespace=self.namespace) for face in self.pool.pods(role)
        ]


Begin = Callable[[Scene], Undo | None]


@dataclass(frozen=True, slots=True)
class Disturbance:
    """A disturbance on kind, and the load around it.

    Attributes:
        begin: begins it, and returns the function that takes it back, if there is one.
        lasts_s: the time between doing it and taking it back.
        load_s: how long the load lasts; it begins `at_s` before the disturbance.
        blind_s: how long Kubernetes itself may take to see what was done.
        limit_s: how long a request may take before its client calls it hung.
        within_s: how long to wait until the pool is whole again.
        deletes: pods that it deletes: Kubernetes makes others at once, beside those that drain.
    """

    begin: Begin
    lasts_s: float = 0.0
    load_s: float = 40.0
    at_s: float = 8.0
    blind_s: float = 0.0
    limit_s: float = 100.0
    within_s: float = 240.0
    deletes: int = 0

    def __call__(self, stage: Stage) -> Evidence:
        """Play it on the ground that all disturbances share."""
        on = ground()
        on.wait_whole()
        return disturbed(on, self, stage)


@dataclass(frozen=True, slots=True)
class Ground:
    """The cluster with an operator, a whole pool, and its undisturbed answers."""

    pool: Pool
    url: str
    reference: Reference
    counts: Mapping[str, int]

    def wait_whole(self) -> None:
        """Wait until nothing of an earlier disturbance is left."""
        counts = dict(self.counts)
        wait_until(
            lambda: self.pool.is_whole(counts=counts), within_s=300.0, what=f"all of {counts} Ready"
        )


@functools.cache
def ground() -> Ground:
    """Install Prometheus, the operator and the pool, once per process."""
    images = setup.built_images()
    setup.cluster("prometheus")
    setup.install_operator(images=images)
    held.let_go_of_all(namespace=NAMESPACE)
    setup.remove_pool(namespace=NAMESPACE)
    setup.make_namespace(NAMESPACE)
    node.mend_all_cuts()
    manifest = trial_manifest(images=images, counts=COUNTS)
    manifest["spec"].setdefault("scaling", {})["gpuBudget"] = BUDGET_GPUS
    manifest["spec"]["engine"]["kvCacheMemory"] = KV_MEMORY
    manifest["spec"]["metrics"] = {"prometheus": {"url": setup.PROMETHEUS_URL}}
    apply(manifest)
    pool = Pool(namespace=NAMESPACE, name=NAME)
    pool.wait_ready()
    wait_until(lambda: pool.is_whole(counts=COUNTS), within_s=300.0, what=f"{COUNTS} Ready")
    wait_until(
        lambda: FROM_PROMETHEUS in pool.condition("MetricsFresh").get("message", ""),
        within_s=120.0,
        what=f"metrics {FROM_PROMETHEUS}",
    )
    url = open_door(pool)
    return Ground(pool, url, reference(url, images), COUNTS)


def reference(url: str, images: Mapping[str, str]) -> Reference:
    """Return the answers of these images' engine, from an earlier run if there was one."""
    tag = images["ENGINE_CPU_IMAGE"].rpartition(":")[2]
    path = names.BUILD / "faults" / f"reference-{tag}.json"
    if not path.exists():
        record_reference(url, model=MODEL).write(path)
    return Reference.read(path)


def close_ground() -> None:
    """Leave the cluster as others expect it."""
    if ground.cache_info().currsize:
        node.mend_all_cuts()
        kubectl("delete", "namespace", NAMESPACE, "--wait=false")
        setup.cluster("prometheus")
        ground.cache_clear()


def kind_scenario(
    name: str,
    family: Family,
    what: str,
    play: Play,
    *,
    undone: str,
    may_lose: Loss = Loss.NOTHING,
    names: str | None = None,
    recovers_s: float = 240.0,
    quick: bool = False,
) -> Scenario:
    """Return a line of the matrix that is played here."""
    return Scenario(
        name=name,
        family=family,
        where=Where.KIND,
        what=what,
        undone=undone,
        play=play,
        may_lose=may_lose,
        names=names,
        recovers_s=recovers_s,
        quick=quick,
    )


def disturbed(on: Ground, disturbance: Disturbance, stage: Stage) -> Evidence:
    """Send load, disturb, take it back, wait until the pool is whole, and say what was seen."""
    scene = Scene(on.pool, on.url, stage.random("scene"))
    run = f"{stage.folder.name}-{int(time.time())}"
    planned = on.reference.plan(
        seed=stage.seed,
        rate_rps=RATE_RPS,
        duration_s=disturbance.load_s,
        run=run,
        streamed_share=STREAMED_SHARE,
    )
    asked = {plan.request_id: (plan, question) for plan, question in planned}
    undo: list[Undo] = []
    with Watch(on.pool, counts=dict(on.counts)) as watch:

        async def load() -> tuple[list[Record], float, float, float]:
            async with LoadGenerator(
                url=on.url, model=MODEL, timeout_s=disturbance.limit_s
            ) as generator:
                plan = [each for each, _ in planned]
                answers = asyncio.create_task(generator.run(plan, traffic=stage.folder.name))
                await asyncio.sleep(disturbance.at_s)
                began_s = time.time()
                taking_back = await asyncio.to_thread(disturbance.begin, scene)
                dealt_s = undone_s = time.time()
                if taking_back is not None:
                    undo.append(taking_back)
                    await asyncio.sleep(disturbance.lasts_s)
                    await asyncio.to_thread(undo.pop())
                    undone_s = time.time()
                return await answers, began_s, dealt_s, undone_s

        try:
            records, began_s, dealt_s, undone_s = asyncio.run(load())
        finally:
            for each in undo:
                each()
        watch.wait_whole(within_s=disturbance.within_s)
    return Evidence(
        requests=requests_of(records, asked, limit_s=disturbance.limit_s),
        moments=tuple(watch.moments),
        said=tuple(watch.said),
        fault_s=began_s,
        dealt_s=dealt_s + disturbance.blind_s,
        undone_s=undone_s,
        budget=max(BUDGET_GPUS, sum(on.counts[role] for role in Role) + disturbance.deletes),
        broken=tuple(scene.broken),
    )


def requests_of(
    records: Sequence[Record],
    asked: Mapping[str, tuple[PlannedRequest, Question]],
    *,
    limit_s: float,
) -> tuple[Request, ...]:
    """Return the fate of each request, its answer compared with the undisturbed one."""
    return tuple(
        Request(
            name=record.request_id,
            sent_s=record.sent_s,
            ended_s=record.ended_s,
            fate=_fate(record, limit_s),
            began=record.output_tokens > 0 if plan.streamed else None,
            why=record.why,
            wrong=question.difference(record),
        )
        for record in records
        for plan, question in (asked[record.request_id],)
    )


def _fate(record: Record, limit_s: float) -> Fate:
    if record.outcome is Outcome.FINISHED:
        return Fate.FINISHED
    if record.outcome is Outcome.SHED:
        return Fate.REFUSED
    return Fate.HUNG if record.elapsed_s >= limit_s else Fate.LOST
