"""The output of `kubectl get ipool,events,configmap -o yaml` for a pool that is in trouble."""

from dataclasses import replace
from typing import Any

import yaml

from tandem_operator.core.learn.engine_models import EngineModels
from tandem_operator.core.learn.measurements import LearnedEngines
from tandem_operator.core.memory import Memory
from tandem_operator.core.observation import StartUp
from tandem_operator.core.observe.role_pods import Start, Starts
from tandem_operator.core.role import Role
from tandem_operator.workloads.stored_memory import memory_to_json
from tests.unit.cli.files import POOL

AT = "2026-05-04T10:00:00Z"


def condition(kind: str, status: str, reason: str, message: str) -> dict[str, Any]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": 3,
        "lastTransitionTime": AT,
    }


STATUS = {
    "observedGeneration": 3,
    "endpoint": "http://chat-router.team.svc",
    "prefill": {"current": 3, "ready": 2, "desired": 3, "pending": 1, "capacity": "24"},
    "decode": {"current": 1, "ready": 1, "desired": 1, "pending": 0},
    "slo": {
        "ttft": {"p50": "120ms", "p95": "512ms", "p99": "1.2s"},
        "attainment": "91.2%",
        "errorBudgetRemaining": {"share": "-76%", "window": "1h", "share30d": "81%"},
        "goodput": "11.3",
        "blame": {"decode_step": 4, "router_queue": 36},
    },
    "cost": {"perHour": "9.96 USD", "perThousandGoodRequests": "0.245 USD"},
    "decision": {
        "time": AT,
        "prefill": {"from": 2, "to": 3},
        "decode": {"from": 1, "to": 1},
        "reason": "prefill 2 -> 3: TTFT p95 was 0.51 s (bound 0.45 s) in the last 2 minutes",
        "inputs": {"arrivals_rps": "12.4", "forecast_rps": "14", "new_number": "7"},
        "limitsHit": ["gpuBudget 6"],
        "alternatives": ["2 prefill: 9 % of requests late because of prefill"],
    },
    "conditions": [
        condition("Ready", "True", "RolledOut", "The pool serves."),
        condition("Available", "True", "Serving", "The router answers."),
        condition("Reconciling", "False", "RolledOut", "The pool serves."),
        condition("Stalled", "False", "NotStalled", "Nothing is in the way."),
        condition("SLOMet", "False", "Missed", "Fewer than 95% of the recent requests."),
        condition("CapacityBlocked", "True", "PodsStuck", "pod chat-prefill-x: Unschedulable"),
        condition("FieldConflict", "False", "NoConflict", "No other manager owns a field."),
    ],
}


def pool(**status: Any) -> dict[str, Any]:
    obj = yaml.safe_load(POOL)
    obj["metadata"] |= {"uid": "u-1", "generation": 3}
    return {**obj, "status": STATUS | status}


def event(note: str, *, at: str = AT, name: str = "chat", uid: str = "u-1") -> dict[str, Any]:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "eventTime": at,
        "reason": "ObservedTTFT",
        "note": note,
        "type": "Normal",
        "regarding": {"kind": "InferencePool", "name": name, "uid": uid},
    }


def memory(text: str | None = None) -> dict[str, Any]:
    starts = Starts({Role.PREFILL: tuple(Start(f"p{i}", 50.0 + i) for i in range(10))})
    stored = memory_to_json(Memory(starts=starts)) if text is None else text
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "chat-memory", "namespace": "team"},
        "data": {"memory.json": stored, "written": "1"},
    }


def learned_memory() -> dict[str, Any]:
    """Return the memory of a pool whose engines measured themselves, as fast as on an H200."""
    told = StartUp(prefill=((100, 0.0195), (1117, 0.0385)), steps=((1, 0.0062), (64, 0.0085)))
    engines = EngineModels().with_start_up(Role.PREFILL, told).with_start_up(Role.DECODE, told)
    learned = LearnedEngines(engines={"abc": replace(engines, kv_capacity_tokens=600_000.0)})
    starts = Starts({Role.PREFILL: tuple(Start(f"p{i}", 50.0 + i) for i in range(10))})
    return memory(memory_to_json(Memory(learned=learned, starts=starts)))


def saved(*objects: dict[str, Any]) -> str:
    return yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": list(objects)})
