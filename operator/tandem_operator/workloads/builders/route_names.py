"""The faults of a pool's `router.gateway` that make an HTTPRoute impossible, a sentence each."""

import re
from collections.abc import Iterator

from tandem_operator.api.v1alpha1.gateway import Gateway
from tandem_operator.workloads.objection import Objection, name_objections

_FIELD = "router.gateway"
_HOST = re.compile(r"([*][.])?[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_HEADER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def route_objections(gateway: Gateway) -> Iterator[Objection]:
    """Yield the reasons why there can be no route; none if it can exist."""
    for index, parent in enumerate(gateway.parent_refs):
        for name, given, works in (
            ("name", parent.name, "public"),
            ("namespace", parent.namespace, "gateways"),
            ("sectionName", parent.section_name, "https"),
        ):
            field = f"{_FIELD}.parentRefs[{index}].{name}"
            yield from name_objections(given, field, example=works)
    for index, host in enumerate(gateway.hosts):
        if not _HOST.fullmatch(host):
            field = f"{_FIELD}.hostnames[{index}]"
            why = "must be a host in lower case, without a port; write for example llm.example.com"
            yield Objection(field, f"{field} {why}")
    if gateway.model_header is not None and not _HEADER.fullmatch(gateway.model_header):
        field = f"{_FIELD}.modelHeader"
        why = "must be the name of a request header; write for example X-Gateway-Model-Name"
        yield Objection(field, f"{field} {why}")
