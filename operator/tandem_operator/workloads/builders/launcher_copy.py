"""The launcher in an engine pod: an init container copies it into a volume.

So the engine runs in any image of vLLM. The launcher's image contains only `/launcher` and the
static `/bin/cp`.
"""

from tandem_contracts.names import LAUNCHER_FOLDER
from tandem_operator.workloads.builders.pod_restrictions import CONFINED
from tandem_operator.workloads.pool_names import LAUNCHER
from tandem_operator.workloads.world import Object

COMMAND = ("python3", LAUNCHER_FOLDER, "serve")
"""The command of the engine: Python runs `__main__.py` of the folder, which is first on its
path."""

DEFAULTS: Object = {
    "name": LAUNCHER,
    # Requests equal limits, so that a pod whose engine does the same is of the class Guaranteed.
    "resources": {
        "requests": {"cpu": "100m", "memory": "64Mi"},
        "limits": {"cpu": "100m", "memory": "64Mi"},
    },
    "terminationMessagePolicy": "FallbackToLogsOnError",
    **CONFINED,
}
VOLUME: Object = {"name": LAUNCHER, "emptyDir": {"sizeLimit": "16Mi"}}
MOUNT: Object = {"name": LAUNCHER, "mountPath": LAUNCHER_FOLDER, "readOnly": True}


def launcher_container(image: str) -> Object:
    """Return the required fields of the init container that copies the launcher."""
    return {
        "name": LAUNCHER,
        "image": image,
        "command": ["/bin/cp", "-R", "/launcher/.", LAUNCHER_FOLDER],
        "volumeMounts": [{"name": LAUNCHER, "mountPath": LAUNCHER_FOLDER}],
    }
