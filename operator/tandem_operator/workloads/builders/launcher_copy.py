"""How the launcher comes into an engine pod: an init container copies it into a volume.

So the engine runs in any image of vLLM as it is. `/launcher` and the static `/bin/cp` are all that
the launcher's image has.
"""

from tandem_contracts.names import LAUNCHER_FOLDER
from tandem_operator.workloads.builders.pod_restrictions import CONFINED
from tandem_operator.workloads.pool_names import LAUNCHER
from tandem_operator.workloads.world import Object

COMMAND = ("python3", LAUNCHER_FOLDER, "serve")
"""Of the engine: Python runs `__main__.py` of the folder, with the folder as first on its path."""

DEFAULTS: Object = {
    "name": LAUNCHER,
    # Equal ones, so that a pod whose engine has equal ones as well is of the class Guaranteed.
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
    """What an init container that copies the launcher must be, whatever a pod template says."""
    return {
        "name": LAUNCHER,
        "image": image,
        "command": ["/bin/cp", "-R", "/launcher/.", LAUNCHER_FOLDER],
        "volumeMounts": [{"name": LAUNCHER, "mountPath": LAUNCHER_FOLDER}],
    }
