"""The sentences of a pool's conditions and Events, each made from plain values."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tandem_operator.api import ConditionType, PoolStatus, parse_pool
from tandem_operator.api.v1alpha1.scaling import MetricsSource
from tandem_operator.core.decide import decide
from tandem_operator.core.guard.router_count import RouterCount
from tandem_operator.core.guard.stabilization import Wants
from tandem_operator.core.memory import Memory
from tandem_operator.core.observation import PodPhase, PodState, SickPod
from tandem_operator.core.role import Role
from tandem_operator.core.spec import Mode, PoolSpec
from tandem_operator.workloads.builders.engine_key import rekeyed_sentence
from tandem_operator.workloads.checks.acceptance import objections
from tandem_operator.workloads.checks.pod_schema import template_faults
from tandem_operator.workloads.effects import WriteOutcome
from tandem_operator.workloads.observed.asked_counts import AskedCount
from tandem_operator.workloads.observed.live_objects import LiveObjects, SeenPod
from tandem_operator.workloads.observed.rivals import AN_AUTOSCALER
from tandem_operator.workloads.observed.troubles import pod_trouble
from tandem_operator.workloads.pool_names import ROUTER, PoolName
from tandem_operator.workloads.status.condition_now import TRUE, ConditionNow
from tandem_operator.workloads.status.conditions import conditions as with_times
from tandem_operator.workloads.status.conditions import rejection, verdicts
from tandem_operator.workloads.status.pool_facts import PoolFacts
from tandem_operator.workloads.status.pool_role_status import verdict_of
from tandem_operator.workloads.stored_memory import MemoryFormatError, memory_from_json
from tandem_operator.workloads.world import Rival
from tests.unit.core.scene import NOW_S, make_spec, observe, pods, report
from tests.unit.workloads.bad_templates import BAD_TEMPLATES
from tests.unit.workloads.cluster import INSTALLATION, pool

COMPONENTS = (*(str(role) for role in Role), ROUTER)
NAME = PoolName("serving", "tiny", "uid")
REFUSED = "pods is forbidden: exceeded quota"
SICK = ("refused", "silent", "failures", "failure_share", "no_progress", "slow", "kv", "other")
SPECS: tuple[Mapping[str, Any], ...] = (
    {"prefill": {"resources": {"limits": {"memory": "1Mi"}}}},
    {"router": {"podTemplate": {"spec": {"terminationGracePeriodSeconds": 1}}}},
    {"decode": {"podTemplate": {"spec": {"containers": [{"name": "vllm"}]}}}},
    {"decode": {"podTemplate": {"spec": {"containers": [{"name": "engine"}] * 2}}}},
    {"decode": {"podTemplate": {"spec": {"containers": [{"image": "logs:1"}]}}}},
    {"decode": {"podTemplate": {"spec": {"containers": "logs"}}}},
    {"decode": {"podTemplate": {"spec": {"initContainers": [{"name": "engine"}]}}}},
    {"router": {"podTemplate": {"spec": {"initContainers": [{"name": "launcher"}]}}}},
    {"router": {"podTemplate": {"spec": {"initContainers": None}}}},
    {"metrics": {"prometheus": {"url": "http://169.254.169.254/latest"}}},
    {"router": {"resources": {"limits": {"nvidia.com/mig-1g.5gb": 1}}}},
    {"decode": {"engine": {"resourceClaimTemplateName": "four-gpus"}}},
    {"model": {"cache": {"hostPath": {"path": "/var/lib/cache"}}}},
    {"model": {"cache": {"size": "1Gi", "storageClassName": "Fast"}}},
    {"prefill": {"engine": {"extraArgs": ["--middleware=os.abort"]}}},
    {"prefill": {"engine": {"extraArgs": ["--kv-cache-dtype=fp8"]}}},
    *(
        {"engine": {"extraArgs": [option]}}
        for option in (
            "--middleware=os.abort",
            "--chat-template=/tmp/x",
            "--grpc=true",
            "--otlp-traces-endpoint=http://x",
            "--enable-mm-embeds=true",
            "--enable-log-outputs=true",
            "--data-parallel-size=2",
            "--kv-offloading-size=40",
            "--enable-lora",
            "--pipeline-parallel=2",
            "--sse-keep-alive-interval=1",
            "--something-new=1",
        )
    ),
    *({"decode": {"podTemplate": each.template}} for each in BAD_TEMPLATES),
)
MISTYPED: tuple[Mapping[str, Any], ...] = (
    {"nodeSelectr": {"zone": "a"}},
    {"container": []},
    {"containers": [{"name": "engine", "nodeSelector": {}}]},
    {"gadget": 1},
    {"nodeSelector": ["zone"]},
    {"nodeSelector": {"gpu": True}},
    {"tolerations": {}},
    {"tolerations": [None]},
    {"hostNetwork": "yes"},
    {"priority": "high"},
    {"overhead": {"cpu": []}},
)


def seen_pod(component: str, **changes: object) -> SeenPod:
    """Return a Ready pod of this generation."""
    made = SeenPod(f"tiny-{component}-0", component, PodPhase.READY, "new", None, None, False, None)
    return replace(made, **changes)  # type: ignore[arg-type]


def facts(**changes: Any) -> PoolFacts:
    """Return a pool at rest that serves."""
    made = PoolFacts(
        name=NAME,
        generation=1,
        policy=make_spec(),
        rivals={},
        templates=dict.fromkeys(COMPONENTS, "new"),
        overridden=(),
        seen=seen(),
        decision=decide(make_spec(), observe(), Memory(), NOW_S)[0],
        routers=RouterCount(1, Wants()),
        least_routers=1,
        previous=PoolStatus(),
        outcome=WriteOutcome(),
        metrics_source=MetricsSource.DIRECT,
        prometheus_passed_over=False,
        prometheus_fault=None,
        cost=None,
        now_s=NOW_S,
    )
    return replace(made, **changes)


def seen(**changes: Any) -> LiveObjects:
    """Return one Ready pod of each component."""
    made = LiveObjects(observe(), tuple(map(seen_pod, COMPONENTS)), {}, {}, {})
    return replace(made, **changes)


def decision(spec: PoolSpec | None = None, extra: tuple[PodState, ...] = (), **changes: Any) -> Any:
    """Return a decision on a pool at rest, with some of its parts replaced."""
    made = decide(spec or make_spec(), observe(extra_pods=extra), Memory(), NOW_S)[0]
    return replace(made, **changes)


def _at_attainment(attainment: float | None, **changes: Any) -> dict[str, Any]:
    made = decision()
    blame = {"PrefillQueue": 3} if attainment == 0.5 else {}
    recent = replace(made.recent, attainment=attainment, blame=blame)
    return {"decision": replace(made, recent=recent), **changes}


def _shapes() -> Iterator[PoolFacts]:
    yield facts()
    waiting = tuple(seen_pod(each, phase=PodPhase.STARTING) for each in COMPONENTS)
    yield facts(seen=seen(pods=waiting))
    yield facts(seen=seen(pods=tuple(replace(each, trouble="OOMKilled: x") for each in waiting)))
    old = tuple(seen_pod(each, template="old") for each in COMPONENTS)
    yield facts(seen=seen(pods=old))
    yield facts(seen=seen(pods=(*map(seen_pod, COMPONENTS), old[0])))
    broken = seen_pod("decode", phase=PodPhase.STARTING, trouble="Crashing: engine: x")
    least = {"least_routers": 2, "policy": make_spec(low=2)}
    yield facts(seen=seen(pods=(*map(seen_pod, COMPONENTS), broken)), **least)
    blocked = "ConfigMap tiny-router exists already and does not belong to this pool (no owner)."
    yield facts(outcome=WriteOutcome(blocked=blocked))
    left = "Service tiny-router: another manager owns spec.ports (by helm)."
    yield facts(outcome=WriteOutcome(left=(left,)))
    yield facts(outcome=WriteOutcome(refused=f"Deployment tiny-decode: {REFUSED}"))
    yield facts(outcome=WriteOutcome(unstored=REFUSED))
    yield facts(overridden=("prefill: spec.restartPolicy",))
    for attainment in (None, 1.0, 0.5):
        yield facts(**_at_attainment(attainment))
    yield facts(**_at_attainment(1.0, seen=seen(pods=(seen_pod("prefill"),))))
    yield facts(metrics_source=MetricsSource.PROMETHEUS)
    yield facts(idle=next(mistyped_templates()))
    yield facts(prometheus_passed_over=True)
    fault = "Prometheus: HTTP 401 from /api/v1/query, since it wants another token"
    yield facts(prometheus_passed_over=True, prometheus_fault=fault)
    yield facts(metrics_source=MetricsSource.PROMETHEUS, prometheus_fault=fault)
    stale = decision(fresh=False, fresh_message="no router is running")
    yield facts(decision=stale, previous=_long_available())
    yield facts(decision=stale)
    for mode in (Mode.RECOMMEND, Mode.PAUSED):
        yield facts(policy=make_spec(mode=mode))
    external = make_spec(managed=dict.fromkeys(Role, False))
    yield facts(policy=external)
    rival = Rival(AN_AUTOSCALER, left_alone=True)
    yield facts(policy=external, rivals={"prefill": rival, ROUTER: rival})
    yield facts(policy=external, rivals={"prefill": rival}, followed=frozenset({"prefill"}))
    yield facts(waiting={"decode": "web"})
    yield facts(seen=seen(refusals={"prefill": f"FailedCreate: {REFUSED}"}))
    yield facts(decision=decision(extra=pods(Role.DECODE, 2, phase=PodPhase.UNSCHEDULED)))
    gated = pods(Role.DECODE, 3, phase=PodPhase.UNSCHEDULED, gates=("kueue.x-k8s.io/admission",))
    yield facts(decision=decision(extra=gated))
    yield facts(decision=decision(extra=gated[:1]))
    yield facts(decision=decision(slo_feasible=True))
    yield facts(decision=decision(slo_feasible=False))
    yield facts(decision=decision(slo_feasible=False, feasible_ttft_s=2.0, feasible_tpot_s=0.04))
    for reason in SICK:
        sick = SickPod("tiny-decode-0", Role.DECODE, NOW_S - 60.0, reason)
        yield facts(seen=seen(observation=observe(routers=[report(sick=(sick,))])))
    lapsed = seen_pod("decode", phase=PodPhase.STARTING, lapsed_s=NOW_S - 60.0)
    yield facts(seen=seen(pods=(lapsed,)))
    yield facts(seen=seen(observation=observe(routers=[])))


def _long_available() -> PoolStatus:
    kind = ConditionType.AVAILABLE
    since = with_times(
        [ConditionNow(kind, TRUE, "Serving", "")], PoolStatus(), generation=1, now_s=0.0
    )
    return PoolStatus(conditions=since)


def conditions() -> Iterator[str]:
    """Yield each condition of a pool, by type, status and reason."""
    found = [each for shape in _shapes() for each in verdicts(shape)]
    for each in (*found, *rejection(["slo.attainment must be a percentage"], seen())):
        yield f"{each.type} {each.status} {each.reason} | {each.message}"


def conditions_of_pool_roles() -> Iterator[str]:
    """Yield what a PoolRole says of its replicas."""
    rival = Rival(AN_AUTOSCALER, left_alone=True)
    asked = (
        None,
        AskedCount(asked=4, to=4),
        AskedCount(asked=9, to=8, limit="decode.maxReplicas"),
        AskedCount(asked=0, to=1, limit="decode.minReplicas"),
    )
    found = [verdict_of(NAME, Role.DECODE, each, rival=None, in_force=True) for each in asked]
    found.append(verdict_of(NAME, Role.DECODE, None, rival=rival, in_force=True))
    found.append(verdict_of(NAME, Role.DECODE, None, rival=None, in_force=False))
    for status, why in found:
        yield f"Effective {status} {why.reason} | {why.message}"


def decisions_of_modes() -> Iterator[str]:
    """Yield the sentences of a decision where Tandem does not act."""
    for mode in (Mode.RECOMMEND, Mode.PAUSED):
        yield from decision(make_spec(mode=mode, low=2)).sentence.split("; decode")[:1]
    owned = decision(make_spec(managed=dict.fromkeys(Role, False)))
    yield owned.roles[Role.PREFILL].sentence


def troubles() -> Iterator[str]:
    """Yield the reasons why a pod is not Ready, where Kubernetes has no words for it."""
    yield pod_trouble({"spec": {"nodeName": "gone"}, "metadata": {}}) or ""
    gates = [{"name": "kueue.x-k8s.io/admission"}, {"name": "acme.example/quota"}]
    for held in (gates[:1], gates):
        yield pod_trouble({"spec": {"schedulingGates": held}, "metadata": {}}) or ""
    claims = [{"name": "gpus", "resourceClaimTemplateName": "one-gpu"}]
    yield pod_trouble({"spec": {"resourceClaims": claims}, "metadata": {}}) or ""
    ended = {"reason": "OOMKilled", "exitCode": 137}
    status = {"name": "engine", "state": {"terminated": ended}}
    yield pod_trouble({"status": {"phase": "Running", "containerStatuses": [status]}}) or ""
    bringing = {**status, "name": "launcher"}
    yield pod_trouble({"status": {"phase": "Pending", "initContainerStatuses": [bringing]}}) or ""


def objections_to_specs() -> Iterator[str]:
    """Yield the objections to specs that the CRD's own rules accept."""
    for change in SPECS:
        yield from map(str, objections(parse_pool(pool(change)).spec, INSTALLATION, name=NAME))
    bare = replace(INSTALLATION, launcher_image="", engine_image_cpu="", engine_image_gpu="")
    for device in ("CPU", "NVIDIA", "AMD"):
        spec = parse_pool(pool({"engine": {"device": device}})).spec
        yield from map(str, objections(spec, bare, name=NAME))


def mistyped_templates() -> Iterator[str]:
    """Yield the fields of a pod template that Kubernetes does not know in any version of it."""
    for spec in MISTYPED:
        parsed = parse_pool(pool({"decode": {"podTemplate": {"spec": spec}}}))
        for each in template_faults(parsed.spec):
            yield re.sub(r"Kubernetes 1\.\d+", "Kubernetes 1.N", str(each))


def events() -> Iterator[str]:
    """Yield the events that follow from no condition and no decision."""
    yield rekeyed_sentence(NAME)
    for stored in ("{", "{}"):
        try:
            memory_from_json(stored)
        except MemoryFormatError as error:
            yield str(error)
