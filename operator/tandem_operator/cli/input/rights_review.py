"""Reviews of rights: the actions that the API server refuses to an account. They change nothing."""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tandem_operator.cli.input.cluster_facts import OperatorFacts
from tandem_operator.kube.rights import Right

if TYPE_CHECKING:
    from tandem_operator.kube.client import Kube

REVIEWS = "/apis/authorization.k8s.io/v1"
AT_ONCE = 8


class RightsReview:
    """A client for reviews of rights, with a few questions at a time."""

    def __init__(self, kube: "Kube") -> None:
        self._kube = kube
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def refused(
        self, wanted: Iterable[tuple[str, Right, str]], *, to: OperatorFacts | None = None
    ) -> tuple[tuple[str, Right], ...]:
        """Return the rights that are not granted, with their verbs.

        Args:
            wanted: triples of a namespace, a right and an object's name; an empty namespace or name
                means all.
            to: the operator whose account is reviewed; `None`: the user.
        """
        asked = [
            (place, right, name, verb) for place, right, name in wanted for verb in right.verbs
        ]
        granted = await asyncio.gather(*(self._allowed(*each, to=to) for each in asked))
        verbs: dict[tuple[str, Right], list[str]] = {}
        for (place, right, _, verb), is_granted in zip(asked, granted, strict=True):
            if not is_granted:
                verbs.setdefault((place, right), []).append(verb)
        return tuple(
            (place, Right(right.group, right.resource, tuple(lacking)))
            for (place, right), lacking in verbs.items()
        )

    async def _allowed(
        self, place: str, right: Right, name: str, verb: str, *, to: OperatorFacts | None
    ) -> bool:
        resource, _, sub = right.resource.partition("/")
        what = {"group": right.group, "resource": resource, "subresource": sub, "name": name}
        spec = {"resourceAttributes": {"namespace": place, "verb": verb, **what}}
        kind = "SelfSubjectAccessReview"
        if to is not None:
            kind, spec = "SubjectAccessReview", spec | _account_of(to)
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
        async with self._slots:
            answer = await self._kube.request("POST", f"{REVIEWS}/{kind.lower()}s", body=body)
        return bool((answer.get("status") or {}).get("allowed"))


def _account_of(operator: OperatorFacts) -> dict[str, Any]:
    """Return an operator's account in the form of a review of rights."""
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{operator.namespace}"]
    account = f"system:serviceaccount:{operator.namespace}:{operator.account}"
    return {"user": account, "groups": [*groups, "system:authenticated"]}
