"""Scenarios about the operator and its API server: real processes, pods as a kubelet shows them.

No request is served here. A pool is whole once the operator has carried out the newest spec.
"""

import contextlib
import functools
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from e2e.cluster.controlplane import ControlPlane
from e2e.faults.evidence import Evidence, Moment, Said, Stage
from e2e.faults.scenario import Family, Scenario, Where
from tandem_operator.core.role import Role
from tests.integration.fake_pods import fake_pods
from tests.integration.faulty_api import FaultyApi, faulty_api
from tests.integration.operator_process import Operator, Pool, eventually, install_crd, node

OUTAGE_S = 65.0
"""Longer than the operator's framework retries by itself."""
MOST_REQUESTS_IN_OUTAGE = 200
BUDGET_GPUS = 8
SCALED = {"minReplicas": 3, "maxReplicas": 3}
AFTER_S, SETTLES_WITHIN_S, ACTS_WITHIN_S = 10.0, 300.0, 120.0


@dataclass(slots=True)
class Scene:
    """One pool, its operator behind a proxy, and the promises that were broken."""

    plane: ControlPlane
    pool: Pool
    api: FaultyApi
    start: Callable[[], Operator]
    random: Random
    operator: Operator
    wanted: dict[Role, int]
    fault_s: float = 0.0
    dealt_s: float = 0.0
    broken: list[str] = field(default_factory=list)

    def scale_up(self) -> None:
        """Ask for three pods of each role, as a user does."""
        self.wanted = dict.fromkeys(Role, 3)
        self.pool.apply(prefill=SCALED, decode=SCALED, scaling={"gpuBudget": BUDGET_GPUS})

    def kill_at_write(self, number: int, *, of: str = "") -> None:
        """Have the operator killed right after its next so many writes of a kind."""
        left = [number]

        def count(method: str, path: str) -> None:
            del method
            if of in path and "/leases/" not in path:
                left[0] -= 1
                if left[0] == 0:
                    self.operator.process.send_signal(signal.SIGKILL)

        self.api.on_write = count

    def wait_killed_and_restart(self) -> None:
        """Wait until the operator is gone, and start it again as its Deployment would."""
        try:
            self.operator.process.wait(timeout=ACTS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.broken.append("the operator wrote less than was waited for")
        self.api.on_write = None
        self.operator.stop(signal.SIGKILL)
        self.operator = self.start()


Act = Callable[[Scene], None]


def on_api(act: Act, *, fresh: bool = False) -> Callable[[Stage], Evidence]:
    """Return the play of an act; `fresh`: the pool is made in the middle of it."""
    return functools.partial(play, act, fresh)


def play(act: Act, fresh: bool, stage: Stage) -> Evidence:
    """Start a control plane and an operator, do the act, and watch until the pool is whole."""
    with contextlib.ExitStack() as stack:
        plane = stack.enter_context(ControlPlane.started())
        install_crd(plane)
        stack.enter_context(node(plane))
        host = stack.enter_context(fake_pods()).host
        api = stack.enter_context(faulty_api(plane))
        kubeconfig = api.kubeconfig(stage.folder / f"kubeconfig-{stage.seed}")
        log = stage.folder / f"operator-{stage.seed}.log"
        log.unlink(missing_ok=True)

        def start() -> Operator:
            return Operator(kubeconfig, log, "--namespace", "default")

        pool = Pool(plane, "default")
        scene = Scene(
            plane=plane,
            pool=pool,
            api=api,
            start=start,
            random=stage.random("act"),
            operator=start(),
            wanted=dict.fromkeys(Role, 1),
        )
        stack.callback(lambda: scene.operator.stop(signal.SIGKILL))
        if not fresh:
            pool.apply(scaling={"gpuBudget": BUDGET_GPUS})
            eventually(lambda: pool.objects_of_kind("Pod") >= 3)
            pool.make_pods_ready(host=host)
            eventually(lambda: pool.condition("Available")["status"] == "True")
        with _watched(scene) as (moments, said):
            scene.fault_s = scene.dealt_s = time.time()
            act(scene)
            undone_s = time.time()
            _settle(scene, moments, host=host)
        if scene.operator.process.poll() is not None:
            scene.broken.append("the operator ended")
        return Evidence(
            requests=(),
            moments=tuple(moments),
            said=tuple(said),
            fault_s=scene.fault_s,
            dealt_s=undone_s,
            undone_s=undone_s,
            budget=BUDGET_GPUS,
            broken=tuple(scene.broken),
        )


def _settle(scene: Scene, moments: list[Moment], *, host: str) -> None:
    """Wait until the pool stays whole for a while."""
    deadline_s = time.time() + SETTLES_WITHIN_S
    while time.time() < deadline_s:
        scene.pool.make_pods_ready(host=host)
        recent = [m for m in moments if m.at_s > time.time() - AFTER_S]
        if len(recent) > 5 and all(moment.whole for moment in recent):
            return
        time.sleep(0.5)


@contextlib.contextmanager
def _watched(scene: Scene) -> Iterator[tuple[list[Moment], list[Said]]]:
    moments: list[Moment] = []
    said: list[Said] = []
    known: set[str] = set()
    stop = threading.Event()

    def look() -> None:
        while not stop.wait(0.3):
            with contextlib.suppress(RuntimeError, OSError, KeyError):
                moments.append(_moment(scene))
                for text in _sentences(scene):
                    if text not in known:
                        known.add(text)
                        said.append(Said(time.time(), text))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield moments, said
    finally:
        stop.set()
        thread.join(10.0)


def _moment(scene: Scene) -> Moment:
    objects = scene.pool.objects()
    asked = {
        role: objects[key]["spec"]["replicas"]
        for role in Role
        if (key := ("Deployment", f"{scene.pool.name}-{role}")) in objects
    }
    return Moment(
        at_s=time.time(),
        asked=asked,
        gpus=sum(
            kind == "Pod" and "nodeName" in each["spec"] and "-router-" not in name
            for (kind, name), each in objects.items()
        ),
        blind=False,
        whole=asked == scene.wanted and _is_carried_out(scene),
    )


def _is_carried_out(scene: Scene) -> bool:
    if not scene.wanted:
        return True
    found = scene.pool.get()
    return bool(found["status"].get("observedGeneration") == found["metadata"]["generation"])


def _sentences(scene: Scene) -> list[str]:
    if not scene.wanted:
        return []
    conditions: list[dict[str, Any]] = scene.pool.get().get("status", {}).get("conditions", [])
    return [f"{each['type']}={each['status']}: {each['message']}" for each in conditions]


def _throttled(scene: Scene) -> None:
    """Have the API server answer 429 to everything, while a user asks for more."""
    before = scene.api.requests
    scene.api.fail(429)
    time.sleep(1.0)
    scene.scale_up()
    time.sleep(OUTAGE_S)
    sent = scene.api.requests - before
    if sent > MOST_REQUESTS_IN_OUTAGE:
        scene.broken.append(f"{sent} requests were sent to an API server that throttles")
    scene.api.mend()


def _history_gone(scene: Scene) -> None:
    """Send 410 to all watches again and again, while a user asks for more."""
    for _ in range(3):
        scene.api.send_to_watches(410)
        time.sleep(1.0)
    scene.scale_up()
    scene.api.send_to_watches(410)


def _killed_between_writes(scene: Scene) -> None:
    """Make a new pool, and kill the operator after some of its first writes."""
    scene.kill_at_write(scene.random.randint(1, 12))
    scene.pool.apply(scaling={"gpuBudget": BUDGET_GPUS})
    scene.wait_killed_and_restart()


def _killed_in_scale_up(scene: Scene) -> None:
    """Kill the operator when it has written the first of two Deployments that grow."""
    scene.kill_at_write(1, of="/deployments/")
    scene.scale_up()
    scene.wait_killed_and_restart()


def _deleted_in_scale_up(scene: Scene) -> None:
    """Delete the pool as soon as the first Deployment grows."""
    written = threading.Event()
    scene.api.on_write = lambda method, path: written.set() if "/deployments/" in path else None
    scene.scale_up()
    if not written.wait(ACTS_WITHIN_S):
        scene.broken.append("the operator did not grow anything")
    scene.wanted = {}
    scene.pool.delete()


def _api_scenario(
    name: str, what: str, act: Act, *, undone: str, fresh: bool = False, quick: bool = False
) -> Scenario:
    return Scenario(
        name=name,
        family=Family.API,
        where=Where.API,
        what=what,
        undone=undone,
        play=on_api(act, fresh=fresh),
        recovers_s=60.0,
        quick=quick,
    )


API = (
    _api_scenario(
        "api-throttles",
        "The API server answers 429 for 65 s, while a user asks for more.",
        _throttled,
        undone="It answers again.",
    ),
    _api_scenario(
        "watch-history-gone",
        "Every watch is answered 410 four times, while a user asks for more.",
        _history_gone,
        undone="Watches begin anew.",
    ),
    _api_scenario(
        "killed-between-writes",
        "The operator is killed between two of the first twelve writes that make a pool.",
        _killed_between_writes,
        undone="It is started again.",
        fresh=True,
    ),
    _api_scenario(
        "killed-in-scale-up",
        "The operator is killed when one of two Deployments has grown.",
        _killed_in_scale_up,
        undone="It is started again.",
        quick=True,
    ),
    _api_scenario(
        "deleted-in-scale-up",
        "The pool is deleted while it grows.",
        _deleted_in_scale_up,
        undone="All that it owned goes.",
    ),
)
