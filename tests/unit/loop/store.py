"""An API server that keeps what it is sent, as far as one operator and one pool can tell."""

import contextlib
import copy
import json
from collections import defaultdict
from dataclasses import replace

import aiohttp
from aiohttp import web
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration
from prometheus_client import CollectorRegistry

from tandem_operator.kube.client import Kube
from tandem_operator.loop import PoolKey, PoolLoop
from tandem_operator.metrics.collect import Collector
from tandem_operator.metrics.exported import Exported
from tests.unit.metrics.servers import access
from tests.unit.workloads.cluster import INSTALLATION, NOW_S, pool

KEY = PoolKey("serving", "tiny")


class Store:
    """Objects by plural and name, and what a test may set about them.

    `refusals` answers writes of an object (NAME, or NAME/SUBRESOURCE), or without a name all lists
    of a kind, with a status. Writes of the object in `cuts` get no answer. `listed` hears of each
    list before its caller does. `served`: plurals of optional kinds that discovery tells
    of.
    """

    def __init__(self, kube, session):
        self.kinds = defaultdict(dict, inferencepools={"tiny": pool()})
        self.events = []
        self.tried = []
        self.refusals = {}
        self.served = set()
        self.cuts = None
        self.listed = lambda plural: None
        self.now_s = NOW_S
        self._kube, self._session = kube, session
        self.restart()

    @property
    def pool(self):
        return self.kinds["inferencepools"]["tiny"]

    @property
    def told(self):
        return [(event["type"], event["reason"]) for event in self.events]

    def condition(self, kind):
        return next(each for each in self.pool["status"]["conditions"] if each["type"] == kind)

    def start(self, pod, *, component):
        """Let a pod of a component's ReplicaSet be there."""
        made = owned_by("Deployment", f"tiny-{component}", f"uid-of-tiny-{component}")
        labels = pod["metadata"]["labels"]
        name = f"tiny-{component}-7d9"
        self.kinds["replicasets"][name] = {
            "metadata": {"name": name, "uid": f"uid-of-{name}", "labels": labels} | made
        }
        pod["metadata"] |= owned_by("ReplicaSet", name, f"uid-of-{name}")
        self.kinds["pods"][pod["metadata"]["name"]] = pod

    def edit(self, spec):
        """Apply an edit of the pool's spec, as a user does."""
        self.pool["spec"] = _over(self.pool["spec"], spec)
        self.pool["metadata"]["generation"] += 1

    def restart(self, *, lease=None, gateway_routes=False):
        """Start a new operator process, which has never seen the pool; it may hold a Lease."""
        self.registry = CollectorRegistry()
        self.loop = PoolLoop(
            self._kube,
            Collector(self._session, servers=access(self._session)),
            installation=replace(INSTALLATION, lease=lease, gateway_routes=gateway_routes),
            exported=Exported(self.registry),
            instance="operator-1",
            now=lambda: self.now_s,
            clock=lambda: self.now_s,
        )

    async def passes(self, count=1):
        for _ in range(count):
            self.now_s += 5.0
            await self.loop.work(KEY)

    async def answer(self, request):
        plural, name, subresource = _address(request.path)
        if plural is None:
            return web.json_response({"resources": [{"name": each} for each in self.served]})
        if request.method == "GET":
            return self._read(plural, name, request.query.get("labelSelector", "="))
        body = json.loads(await request.text())
        if (plural, name) == self.cuts:
            request.transport.close()
        if request.method == "POST" and plural == "secrets":
            return self._created(body)
        if request.method == "POST":
            self.events.append(body)
            return web.json_response(body)
        if "dryRun" not in request.query:
            self.tried.append((plural, name))
        refused = self._refused(plural, name, body, request.query, subresource)
        if refused is not None:
            return refused
        manager = request.query["fieldManager"]
        stored = self._applied(plural, name, body, subresource, manager)
        if "dryRun" not in request.query:
            self.kinds[plural][name] = stored
        return web.json_response(stored)

    def _created(self, body):
        name = body["metadata"]["name"]
        self.tried.append(("secrets", name))
        if ("secrets", name) in self.refusals:
            status, message = self.refusals["secrets", name]
            return web.json_response({"message": message}, status=status)
        if name in self.kinds["secrets"]:
            return web.json_response({"reason": "AlreadyExists"}, status=409)
        self.kinds["secrets"][name] = body
        return web.json_response(body)

    def _read(self, plural, name, selector):
        if name is not None:
            found = self.kinds[plural].get(name)
            return web.json_response(found or {"reason": "NotFound"}, status=200 if found else 404)
        if (plural, None) in self.refusals:
            status, message = self.refusals[plural, None]
            return web.json_response({"message": message}, status=status)
        label, _, value = selector.partition("=")
        items = [
            each
            for each in self.kinds[plural].values()
            if not label or (each["metadata"].get("labels") or {}).get(label) == value
        ]
        answer = web.json_response({"items": items})
        self.listed(plural)
        return answer

    def _refused(self, plural, name, body, query, subresource):
        for written in (name, f"{name}/{subresource}"):
            if (plural, written) in self.refusals:
                status, message = self.refusals[plural, written]
                return web.json_response({"message": message}, status=status)
        owner = self._owner_in_the_way(plural, name, body, query["fieldManager"])
        if owner is None or query.get("force") == "true":
            return None
        message = f'conflict with "{owner}"'
        cause = {"reason": "FieldManagerConflict", "message": message, "field": ".spec.replicas"}
        return web.json_response({"details": {"causes": [cause]}}, status=409)

    def _owner_in_the_way(self, plural, name, body, manager):
        """Return another manager of `spec.replicas`, where it has another count."""
        current, wanted = self.kinds[plural].get(name), (body.get("spec") or {}).get("replicas")
        if current is None or wanted in (None, (current.get("spec") or {}).get("replicas")):
            return None
        owners = [each["manager"] for each in current["metadata"].get("managedFields", ())]
        return next((each for each in owners if each != manager), None)

    def _applied(self, plural, name, body, subresource, manager):
        current = self.kinds[plural].get(name, {})
        if subresource == "status":
            return current | {"status": body["status"]}
        stored = _over(current, body)
        if plural in {"deployments", "poolroles"}:
            stored["metadata"].setdefault("uid", f"uid-of-{name}")
        if plural == "deployments":
            stored["spec"].setdefault("replicas", 1)
        if plural in {"deployments", "poolroles"} and "replicas" in (body.get("spec") or {}):
            own(stored, manager)
        return stored


def owned_by(kind, name, uid):
    """Return the metadata of an object that another one controls."""
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": True}
    return {"ownerReferences": [owner]}


def own(deployment, manager):
    """Note a manager as the only owner of `spec.replicas`."""
    fields = {"f:spec": {"f:replicas": {}}}
    deployment["metadata"]["managedFields"] = [{"manager": manager, "fieldsV1": fields}]


def _address(path):
    """Return plural, name and subresource; all `None` for discovery."""
    _, namespaced, rest = path.partition("/namespaces/")
    if not namespaced:
        return None, None, None
    _, plural, *more = rest.split("/")
    name, subresource = [*more, None, None][:2]
    return plural, name, subresource


def _over(under, over):
    if not (isinstance(under, dict) and isinstance(over, dict)):
        return copy.deepcopy(over)
    return {**under, **{key: _over(under.get(key), value) for key, value in over.items()}}


@contextlib.asynccontextmanager
async def storing():
    """Run a store behind a real client."""
    app = web.Application()
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    configuration = Configuration()
    async with aiohttp.ClientSession() as session:
        kube = Kube(ApiClient(configuration))
        store = Store(kube, session)
        app.router.add_route("*", "/{tail:.*}", store.answer)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        configuration.host = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield store
        finally:
            await kube.close()
            await runner.cleanup()
