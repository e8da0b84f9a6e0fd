"""PoolRoles: the scale targets of roles that another owner sizes. They never contain counts."""

from tandem_operator.api import API_VERSION, ROLE_KIND
from tandem_operator.core.role import Role
from tandem_operator.workloads.labels import labels_of
from tandem_operator.workloads.pool_names import PoolName
from tandem_operator.workloads.world import Object


def pool_role(name: PoolName, role: Role) -> Object:
    """Return the role's scale target, with the name of its Deployment."""
    return name.head(
        api_version=API_VERSION,
        kind=ROLE_KIND,
        child=name.child(role),
        labels=labels_of(name, role),
    )
