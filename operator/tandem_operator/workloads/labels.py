"""Labels of children and pods, and the selectors that rest on them."""

from tandem_contracts.names import POOL_LABEL, ROLE_LABEL
from tandem_operator.workloads.pool_names import PoolName

TEMPLATE_ANNOTATION = "tandem-inference.io/template"
DELETION_COST_ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"


def labels_of(name: PoolName, component: str | None = None) -> dict[str, str]:
    """Labels of a child; one that serves the whole pool has no component."""
    labels = {
        "app.kubernetes.io/name": "tandem",
        "app.kubernetes.io/managed-by": "tandem",
        "app.kubernetes.io/instance": name.name,
        POOL_LABEL: name.name,
    }
    if component is not None:
        labels |= {"app.kubernetes.io/component": str(component), ROLE_LABEL: str(component)}
    return labels


def selector_of(name: PoolName, component: str) -> dict[str, str]:
    """What selects a component's pods. Immutable in a Deployment: it holds no more than it must."""
    return {POOL_LABEL: name.name, ROLE_LABEL: str(component)}
