"""The reader for `tandem doctor`: a few lists and reviews of rights; it changes nothing."""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib import metadata
from typing import TYPE_CHECKING

from tandem_operator.api import GROUP, PLURAL, ROLE_PLURAL
from tandem_operator.cli.command_errors import FailedError
from tandem_operator.cli.input.cluster_facts import ClusterFacts, Object, OperatorFacts, Topic
from tandem_operator.cli.input.named_objects import (
    asks_for_gateway,
    claims_of,
    prometheus_of,
    prometheus_token_of,
    service_of,
)
from tandem_operator.cli.input.operator_deployment import operator_of
from tandem_operator.cli.input.pool_list import list_pools
from tandem_operator.cli.input.rights_review import RightsReview
from tandem_operator.kube.kinds import (
    CONFIG_MAP,
    DEPLOYMENT,
    HTTP_ROUTE,
    NODE,
    POD,
    POD_MONITOR,
    POOL,
    POOL_ROLE,
    SERVICE,
    ResourceKind,
)
from tandem_operator.kube.lease_name import lease_name
from tandem_operator.kube.rights import (
    CLUSTER_RIGHTS,
    LEASE_RIGHTS,
    POOL_RIGHTS,
    ROUTE_RIGHTS,
    Right,
)

if TYPE_CHECKING:
    from tandem_operator.kube.client import Kube

DEFINITION = ResourceKind(
    "apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions"
)
CLAIM_TEMPLATE = ResourceKind(
    "resource.k8s.io/v1", "ResourceClaimTemplate", "resourceclaimtemplates"
)
SERVICE_MONITOR = ResourceKind("monitoring.coreos.com/v1", "ServiceMonitor", "servicemonitors")
OF_OPERATORS = "app.kubernetes.io/name=tandem,app.kubernetes.io/component=operator"
OF_TANDEM = "app.kubernetes.io/name=tandem"

_VIEW = "top, explain, plan --pool"
USER_RIGHTS = (
    (Right(POOL.group, POOL.plural, ("get", "list")), _VIEW),
    (Right(CONFIG_MAP.group, CONFIG_MAP.plural, ("get",)), "explain, profile export"),
    (Right("", "events", ("list",)), "explain"),
    (Right(POD.group, POD.plural, ("list",)), "record"),
    (Right(POD.group, f"{POD.plural}/portforward", ("create", "get")), "record"),
)


class Survey:
    """One look at a cluster; parts that the user may not read are named, and the rest is read."""

    def __init__(self, kube: "Kube", *, namespace: str | None, operator_namespace: str) -> None:
        self._kube = kube
        self._namespace = namespace
        self._operator_namespace = operator_namespace
        self._unread: dict[Topic, str] = {}
        self._rights = RightsReview(kube)

    async def facts(self) -> ClusterFacts:
        """Return everything that can be read.

        Raises:
            ApiServerError: the server refuses even to tell its version.
        """
        version = await self._kube.request("GET", "/version")
        definition = await self._definition(PLURAL)
        role_definition = await self._definition(ROLE_PLURAL)
        pools, nodes, pods = (
            await self._pools(),
            await self._list(Topic.NODES, NODE, namespace=None),
            await self._list(Topic.PODS, POD, namespace=self._namespace, selector=OF_TANDEM),
        )
        operators = await self._operators()
        return ClusterFacts(
            cli_version=metadata.version("tandem-inference"),
            server_version=str(version.get("gitVersion") or ""),
            namespace=self._namespace,
            definition=definition,
            role_definition=role_definition,
            operators=operators,
            user_refused=await self._user_refused(),
            nodes=nodes,
            pools=pools,
            pool_roles=await self._pool_roles() if role_definition is not None else (),
            pods=pods,
            monitors=await self._monitors(),
            serves_routes=await self._serves_routes(pools),
            claim_templates=await self._claim_templates(pools),
            services=await self._services(pools, operators),
            unread_tokens=await self._unread_tokens(pools, operators),
            unread=dict(self._unread),
        )

    @contextlib.contextmanager
    def _reading(self, topic: Topic) -> Iterator[None]:
        from tandem_operator.kube.client import ApiServerError  # noqa: PLC0415

        try:
            yield
        except (ApiServerError, FailedError) as error:
            self._unread[topic] = getattr(error, "message", str(error))

    async def _list(
        self, topic: Topic, kind: ResourceKind, *, namespace: str | None, selector: str = ""
    ) -> tuple[Object, ...]:
        with self._reading(topic):
            return tuple(
                await self._kube.list(kind, namespace=namespace, selector=selector, cached=True)
            )
        return ()

    async def _pool_roles(self) -> tuple[Object, ...]:
        return await self._list(Topic.POOLS, POOL_ROLE, namespace=self._namespace)

    async def _definition(self, plural: str) -> Object | None:
        with self._reading(Topic.DEFINITION):
            path = f"{DEFINITION.root}/{DEFINITION.plural}/{plural}.{GROUP}"
            return await self._found(path)
        return None

    async def _found(self, path: str) -> Object | None:
        from tandem_operator.kube.client import ApiServerError  # noqa: PLC0415

        try:
            return await self._kube.request("GET", path)
        except ApiServerError as error:
            if error.status == 404:
                return None
            raise

    async def _pools(self) -> tuple[Object, ...]:
        with self._reading(Topic.POOLS):
            return tuple(await list_pools(self._kube, self._namespace))
        return ()

    async def _operators(self) -> tuple[OperatorFacts, ...]:
        found = await self._list(Topic.OPERATOR, DEPLOYMENT, namespace=None, selector=OF_OPERATORS)
        if Topic.OPERATOR in self._unread:
            del self._unread[Topic.OPERATOR]
            found = await self._list(
                Topic.OPERATOR,
                DEPLOYMENT,
                namespace=self._operator_namespace,
                selector=OF_OPERATORS,
            )
        return tuple([await self._with_rights(each) for each in found])

    async def _with_rights(self, deployment: Object) -> OperatorFacts:
        found = operator_of(deployment)
        lease = lease_name(found.namespaces)
        rights = (*POOL_RIGHTS, *(ROUTE_RIGHTS if found.gateway_routes else ()))
        wanted = [(place, right, "") for place in found.namespaces or ("",) for right in rights]
        wanted += [("", right, "") for right in CLUSTER_RIGHTS if not found.namespaces]
        wanted += [(found.namespace, right, lease) for right in LEASE_RIGHTS]
        refused = None
        with self._reading(Topic.OPERATOR_RIGHTS):
            refused = await self._rights.refused(wanted, to=found)
        return replace(found, refused=refused)

    async def _user_refused(self) -> tuple[tuple[Right, str], ...]:
        wanted = [(self._namespace or "", right, "") for right, _ in USER_RIGHTS]
        with self._reading(Topic.USER_RIGHTS):
            refused = await self._rights.refused(wanted)
            lacking = {(right.group, right.resource): right for _, right in refused}
            return tuple(
                (lacking[right.group, right.resource], commands)
                for right, commands in USER_RIGHTS
                if (right.group, right.resource) in lacking
            )
        return ()

    async def _monitors(self) -> frozenset[str]:
        with self._reading(Topic.METRICS):
            return frozenset(
                {
                    kind.kind
                    for kind in (POD_MONITOR, SERVICE_MONITOR)
                    if await self._kube.serves(kind)
                }
            )
        return frozenset()

    async def _serves_routes(self, pools: Iterable[Object]) -> bool:
        with self._reading(Topic.GATEWAY):
            return not any(map(asks_for_gateway, pools)) or await self._kube.serves(HTTP_ROUTE)
        return False

    async def _services(
        self, pools: Iterable[Object], operators: Iterable[OperatorFacts]
    ) -> dict[tuple[str, str], bool]:
        found: dict[tuple[str, str], bool] = {}
        named = {*map(prometheus_of, pools), *(service_of(each.prometheus) for each in operators)}
        for namespace, name in sorted(service for service in named if service is not None):
            with self._reading(Topic.METRICS):
                path = SERVICE.path(namespace=namespace, name=name)
                found[namespace, name] = await self._found(path) is not None
        return found

    async def _claim_templates(
        self, pools: Iterable[Object]
    ) -> dict[tuple[str, str], Object | None]:
        found: dict[tuple[str, str], Object | None] = {}
        for namespace, name in {named for pool in pools for named in claims_of(pool)}:
            with self._reading(Topic.CLAIMS):
                path = CLAIM_TEMPLATE.path(namespace=namespace, name=name)
                found[namespace, name] = await self._found(path)
        return found

    async def _unread_tokens(
        self, pools: Iterable[Object], operators: Iterable[OperatorFacts]
    ) -> tuple[tuple[str, str], ...]:
        named = sorted({secret for pool in pools if (secret := prometheus_token_of(pool))})
        lacking = []
        for namespace, name in named:
            serve = [o for o in operators if not o.namespaces or namespace in o.namespaces]
            with self._reading(Topic.OPERATOR_RIGHTS):
                wanted = [(namespace, Right("", "secrets", ("get",)), name)]
                refused = [await self._rights.refused(wanted, to=each) for each in serve]
                if refused and all(refused):
                    lacking.append((namespace, name))
        return tuple(lacking)
