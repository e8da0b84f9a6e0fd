"""The labels of children and pods, and the selectors that use them."""

from tandem_contracts.names import POOL_LABEL, ROLE_LABEL
from tandem_operator.workloads.pool_names import PoolName

TEMPLATE_ANNOTATION = "tandem-inference.io/template"
DELETION_COST_ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"


def labels_of(name: PoolName, component: str | None = None) -> dict[str, str]:
    """Return the labels of a child; a child of the whole pool has no component."""
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
    """Return the selector of a component's pods: minimal, because it is immutable."""
    return {POOL_LABEL: name.name, ROLE_LABEL: str(component)}
