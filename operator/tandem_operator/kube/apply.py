"""The writer of a pool's children: all or nothing, unforced first, and only if something changed.

There are two field managers: `tandem` for whole children, `tandem-replicas` for `spec.replicas`
alone. If a role is given to another owner, the second manager stops writing its count.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from tandem_operator.kube.client import CHILD_MANAGER, ApiServerError, Kube, Object
from tandem_operator.kube.compare import HASH_ANNOTATION, Path, differences, with_hash
from tandem_operator.kube.conflicts import (
    Conflict,
    describe,
    forcible,
    not_ours,
    owners_of,
    parse_conflicts,
)
from tandem_operator.kube.field_paths import without
from tandem_operator.kube.kinds import BY_NAME, DEPLOYMENT, POOL_ROLE, ROLE, ROLE_BINDING
from tandem_operator.workloads.observed.ownership import controller_of, whose
from tandem_operator.workloads.pool_names import key_of

REPLICAS_MANAGER = "tandem-replicas"

ChildKey = tuple[str, str]
"""Kind and name, within one namespace."""

_REFUSALS = frozenset({400, 403, 404, 413, 422})
# Server-side apply answers 500 to a field that a kind's schema cannot hold (seen in Kubernetes
# 1.34).
_MALFORMED = "failed to create typed patch object"
_OURS = (
    "spec.template",
    # It controls a rollout, and half of it makes no sense.
    "spec.strategy",
    "spec.paused",
    "metadata.labels.tandem-inference.io/",
    "metadata.annotations.tandem-inference.io/",
)
_FORCIBLE_REPLICAS = ("spec.replicas",)


@dataclass(frozen=True, slots=True)
class Contested:
    """Fields of a child that another manager claims; the user is told about them."""

    child: ChildKey
    conflicts: tuple[Conflict, ...]

    @property
    def taken_back(self) -> str:
        """Return them in words, after Tandem took them back."""
        kind, name = self.child
        return f"{kind} {name}: Tandem took back {describe(self.conflicts)}, which it manages."

    @property
    def left_alone(self) -> str:
        """Return them in words, while the other manager keeps them."""
        kind, name = self.child
        return f"{kind} {name}: another manager owns {describe(self.conflicts)}."


@dataclass(frozen=True, slots=True)
class ApplyReport:
    """The result of one application. After `blocked` and `refused`, nothing at all was written.

    Attributes:
        taken: fields taken back from another manager in this application.
        left: fields that another manager keeps, for as long as it does.
    """

    written: tuple[ChildKey, ...] = ()
    taken: tuple[Contested, ...] = ()
    left: tuple[Contested, ...] = ()
    blocked: str | None = None
    refused: str | None = None
    conflicts: int = 0


@dataclass(frozen=True, slots=True)
class _Claims:
    """The part of a child that passed the dry run: the whole child, or without others' fields."""

    body: Object
    sent: Object
    taken: tuple[Conflict, ...] = ()
    left: tuple[Conflict, ...] = ()


@dataclass(frozen=True, slots=True)
class _Stored:
    """The form in which the API server stored the object that was applied last.

    Attributes:
        digest: digest of the applied object.
        rewritten: paths with another value of the server or of another manager.
        left: fields that another manager keeps.
        version: version of the object, once it was written.
    """

    digest: str
    rewritten: frozenset[Path]
    left: tuple[Conflict, ...]
    version: str


class _NotKeptError(Exception):
    """The API server would store an object without a part that it does not know."""


class PreviousPoolRemainsError(Exception):
    """Children of a deleted pool with the same name are still being collected."""


def controller_uid(body: Mapping[str, Any]) -> str | None:
    """Return the UID of the object that controls this one."""
    uid = controller_of(body).get("uid")
    return None if uid is None else str(uid)


def refusal_of(error: ApiServerError) -> str | None:
    """Return why the object cannot be accepted unchanged; `None` if another try may help."""
    if error.status in _REFUSALS:
        return error.message
    if error.status == HTTPStatus.INTERNAL_SERVER_ERROR and error.message.startswith(_MALFORMED):
        return error.message.partition("): ")[2] or error.message
    return None


class ChildWriter:
    """The writer of children; it remembers how the API server rewrites applied objects."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._stored: dict[tuple[str, ChildKey], _Stored] = {}

    async def apply(
        self, bodies: Sequence[Object], observed: Mapping[ChildKey, Object], *, pool_uid: str
    ) -> ApplyReport:
        """Apply all changes, after every object passed a dry run."""
        hashed = [with_hash(body) for body in bodies]
        changed = [body for body in hashed if self._differs(body, observed)]
        claims: list[_Claims] = []
        for body in changed:
            key = key_of(body)
            try:
                stranger = await self.stranger(body, observed, pool_uid=pool_uid)
                if stranger:
                    return ApplyReport(blocked=stranger, conflicts=1)
                if self._needs_new_role(body, observed):
                    claims.append(_Claims(body, body))
                    continue
                claim = await self._rehearse(body)
            except ApiServerError as error:
                why = refusal_of(error)
                if why is None:
                    raise
                return ApplyReport(refused=f"{key[0]} {key[1]}: {why}")
            except _NotKeptError as error:
                return ApplyReport(refused=f"{key[0]} {key[1]}: {error}")
            if isinstance(claim, str):
                return ApplyReport(blocked=f"{key[0]} {key[1]}: {claim}", conflicts=1)
            claims.append(claim)
        for each in claims:
            await self._write(each)
        return ApplyReport(
            written=tuple(map(key_of, changed)),
            taken=tuple(Contested(key_of(each.body), each.taken) for each in claims if each.taken),
            left=tuple(self._left(hashed)),
            conflicts=sum(bool(each.taken or each.left) for each in claims),
        )

    async def set_replicas(self, deployment: Object, replicas: int) -> ApplyReport:
        """Write `spec.replicas` of one Deployment of a Managed role."""
        spec, key = deployment["spec"], key_of(deployment)
        owners = owners_of(deployment, ("spec", "replicas"))
        if spec.get("replicas") == replicas and REPLICAS_MANAGER in owners:
            return ApplyReport()
        metadata = {name: deployment["metadata"][name] for name in ("namespace", "name")}
        body: Object = {
            "apiVersion": DEPLOYMENT.api_version,
            "kind": DEPLOYMENT.kind,
            "metadata": metadata,
            "spec": {"replicas": replicas},
        }
        try:
            await self._kube.apply(DEPLOYMENT, body, manager=REPLICAS_MANAGER)
        except ApiServerError as error:
            conflicts = parse_conflicts(error.body) if error.status == 409 else ()
            if not forcible(conflicts, prefixes=_FORCIBLE_REPLICAS):
                raise
            await self._kube.apply(DEPLOYMENT, body, manager=REPLICAS_MANAGER, force=True)
            return ApplyReport(written=(key,), taken=(Contested(key, conflicts),), conflicts=1)
        return ApplyReport(written=(key,))

    async def mirror_replicas(self, pool_role: Object, replicas: int) -> bool:
        """Copy a Deployment's count into a PoolRole without a scaler; return whether it did.

        No client has scaled this PoolRole. The copy is never forced, so a count that another client
        writes meanwhile wins.
        """
        body = POOL_ROLE.head_of(pool_role) | {"spec": {"replicas": replicas}}
        try:
            await self._kube.apply(POOL_ROLE, body, manager=REPLICAS_MANAGER)
        except ApiServerError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
            return False
        return True

    async def prune(
        self,
        observed: Iterable[Object],
        *,
        keep: frozenset[ChildKey],
        pool_uid: str,
    ) -> tuple[ChildKey, ...]:
        """Delete children that this pool should no longer have."""
        surplus = [
            each
            for each in observed
            if key_of(each) not in keep
            and controller_uid(each) == pool_uid
            and "deletionTimestamp" not in each["metadata"]
        ]
        for each in surplus:
            metadata = each["metadata"]
            await self._kube.delete(
                BY_NAME[each["kind"]],
                namespace=metadata["namespace"],
                name=metadata["name"],
                uid=metadata["uid"],
            )
        return tuple(map(key_of, surplus))

    async def overwrite(self, body: Object) -> Object:
        """Apply one object whose fields are all ours; return it as stored."""
        return await self._kube.apply(
            BY_NAME[body["kind"]], body, manager=CHILD_MANAGER, force=True
        )

    def forget(self, *, namespace: str, pool: str) -> None:
        """Drop what is remembered about the children of a pool that is gone."""
        for key in [each for each in self._stored if each[0] == namespace]:
            if key[1][1] == pool or key[1][1].startswith(f"{pool}-"):
                del self._stored[key]

    def _differs(self, body: Object, observed: Mapping[ChildKey, Object]) -> bool:
        key = key_of(body)
        current = observed.get(key)
        if current is None:
            return True
        rewritten: frozenset[Path] = frozenset()
        stored = self._stored_as(body)
        if stored is not None:
            if stored.left and stored.version != current["metadata"].get("resourceVersion"):
                # The other manager may have given up the field.
                return True
            rewritten = stored.rewritten
        return any(path not in rewritten for path in differences(body, current))

    def _stored_as(self, body: Object) -> _Stored | None:
        """Return how this same body was stored, if it was."""
        stored = self._stored.get((body["metadata"]["namespace"], key_of(body)))
        return stored if stored is not None and stored.digest == _digest(body) else None

    def _left(self, bodies: Iterable[Object]) -> Iterator[Contested]:
        for body in bodies:
            stored = self._stored_as(body)
            if stored is not None and stored.left:
                yield Contested(key_of(body), stored.left)

    async def stranger(
        self, body: Object, observed: Mapping[ChildKey, Object], *, pool_uid: str
    ) -> str | None:
        """Return why an object of another owner has the name, if so."""
        kind, name = key_of(body)
        current = observed.get((kind, name))
        if current is None:
            namespace = body["metadata"]["namespace"]
            current = await self._kube.get(BY_NAME[kind], namespace=namespace, name=name)
        if current is None or controller_uid(current) == pool_uid:
            return None
        if controller_of(current).get("kind") == "InferencePool":
            raise PreviousPoolRemainsError(f"{kind} {name} of a deleted pool still exists.")
        return (
            f"{kind} {name} exists already and does not belong to this pool ({whose(current)}); "
            "delete it, or give the pool another name."
        )

    @staticmethod
    def _needs_new_role(body: Object, observed: Mapping[ChildKey, Object]) -> bool:
        # The API server checks a binding against the rules of its Role, which a dry run on a new
        # pool has not created.
        if body["kind"] != ROLE_BINDING.kind:
            return False
        return (ROLE.kind, body["roleRef"]["name"]) not in observed

    async def _rehearse(self, body: Object) -> _Claims | str:
        """Return the child after a dry run, without the fields that another manager keeps.

        Returns a sentence if the server names a field that is not in the child.
        """
        kind = BY_NAME[body["kind"]]
        try:
            result = await self._kube.apply(kind, body, manager=CHILD_MANAGER, dry_run=True)
        except ApiServerError as error:
            conflicts = parse_conflicts(error.body) if error.status == 409 else ()
            left = not_ours(conflicts, prefixes=_OURS)
            sent = without(body, [each.field for each in left])
            if not conflicts:
                raise
            if sent is None:
                return f"another manager owns {describe(left)}."
            taken = tuple(each for each in conflicts if each not in left)
            result = await self._kube.apply(
                kind, sent, manager=CHILD_MANAGER, force=bool(taken), dry_run=True
            )
            _hold_to_image_volumes(sent, result)
            return _Claims(body, sent, taken=taken, left=left)
        _hold_to_image_volumes(body, result)
        return _Claims(body, body)

    async def _write(self, claims: _Claims) -> None:
        body = claims.body
        result = await self._kube.apply(
            BY_NAME[body["kind"]], claims.sent, manager=CHILD_MANAGER, force=bool(claims.taken)
        )
        self._stored[body["metadata"]["namespace"], key_of(body)] = _Stored(
            _digest(body),
            frozenset(differences(body, result)),
            claims.left,
            str(result["metadata"].get("resourceVersion")),
        )


def _hold_to_image_volumes(body: Object, result: Object) -> None:
    """Raise if pods would start without their weights: Kubernetes only drops such a volume."""
    if _image_volumes(body) - _image_volumes(result):
        raise _NotKeptError(
            "this API server has no image volumes, which model.source.uri: oci://... needs; use"
            " Kubernetes 1.35, or turn on the feature gate ImageVolume, or use another source"
        )


def _image_volumes(body: Object) -> set[str]:
    pod = ((body.get("spec") or {}).get("template") or {}).get("spec") or {}
    return {each["name"] for each in pod.get("volumes") or () if each.get("image") is not None}


def _digest(body: Object) -> str:
    return str(body["metadata"]["annotations"][HASH_ANNOTATION])
