"""The prefill pod that the operator plans for a pool, made ready to be run on this machine."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from benchmarks.engines.engine import RealEngine, start
from tandem_operator.workloads.pass_plan import plan
from tandem_operator.workloads.pool_names import PoolName
from tandem_operator.workloads.world import Installation, World
from tests.engine.real_engine import SMALL

SAMPLE = Path(__file__).parents[2] / "manifests/samples/tiny-cpu.yaml"
INSTALLATION = Installation(
    router_image="router:1",
    launcher_image="launcher:1",
    engine_image_cpu="engine:1",
    engine_image_gpu="engine-cuda:1",
)
NAME = PoolName(namespace="serving", name="tiny", uid="UID")
ENGINE_KEY = "key-of-the-pool"
FIELDS = {"status.podIP": "127.0.0.1", "metadata.labels['tandem-inference.io/revision']": "a"}


def planned_container(changes: Mapping[str, Any], **environment: str) -> dict[str, Any]:
    """Return the engine of the prefill pod of the sample with `changes`, by path below `spec`."""
    pool = yaml.safe_load(SAMPLE.read_text())
    pool["metadata"] |= {"namespace": NAME.namespace, "uid": NAME.uid, "generation": 1}
    for path, value in changes.items():
        *parents, last = path.split(".")
        part = pool["spec"]
        for parent in parents:
            part = part[parent]
        part[last] = value
    variables = [{"name": name, "value": value} for name, value in environment.items()]
    template = {"spec": {"containers": [{"name": "engine", "env": variables}]}}
    pool["spec"]["prefill"]["podTemplate"] = template
    planned = plan(World(pool=pool, installation=INSTALLATION), now_s=1_790_000_000.0)
    (deployment,) = (
        child
        for child in planned.children
        if child["kind"] == "Deployment" and child["metadata"]["name"].endswith("-prefill")
    )
    container: dict[str, Any] = deployment["spec"]["template"]["spec"]["containers"][0]
    return container


async def start_planned(
    python: str,
    container: Mapping[str, Any],
    *,
    folder: Path,
    session: aiohttp.ClientSession,
    secrets: Mapping[str, str],
    home: Path | None = None,
) -> RealEngine:
    """Start the container's engine; its termination message goes to a file beside its log.

    `secrets` are values by NAME/KEY, beside the pool's own key; `home` is what the pod has at
    /cache.
    """
    arguments = container["args"]
    environment = resolved(container, secrets={f"{NAME.engine_key}/key": ENGINE_KEY, **secrets})
    if home is not None:
        arguments = [each.replace("=/cache/", f"={home}/") for each in arguments]
        environment["HOME"] = str(home)
    return await start(
        python,
        *arguments,
        f"--termination-log={termination_log(folder)}",
        *SMALL,
        session=session,
        log=folder / "log",
        environment=environment,
    )


def resolved(container: Mapping[str, Any], *, secrets: Mapping[str, str]) -> dict[str, str]:
    """Return the container's environment as the kubelet fills it in."""
    # What the developer of this machine has set must not help.
    environment = {"HF_TOKEN": "", "NO_PROXY": "127.0.0.1"}
    for variable in container["env"]:
        given = variable.get("valueFrom") or {}
        if "secretKeyRef" in given:
            reference = given["secretKeyRef"]
            key = f"{reference['name']}/{reference['key']}"
            if key in secrets or not reference.get("optional"):
                environment[variable["name"]] = secrets[key]
        elif "fieldRef" in given:
            environment[variable["name"]] = FIELDS[given["fieldRef"]["fieldPath"]]
        elif variable["name"] != "HOME":
            environment[variable["name"]] = variable["value"]
    return environment


def termination_log(folder: Path) -> Path:
    """Make a pod's folder, and in it the file that the kubelet would read."""
    folder.mkdir()
    file = folder / "termination-log"
    file.touch()
    return file
