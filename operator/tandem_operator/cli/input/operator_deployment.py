"""The operators of a cluster, from the Deployments that the chart makes of them."""

import json

from tandem_operator.cli.input.cluster_facts import Object, OperatorFacts


def operator_of(deployment: Object) -> OperatorFacts:
    """Return the facts about an operator in its Deployment of the chart."""
    head, spec = deployment.get("metadata") or {}, deployment.get("spec") or {}
    pod = ((spec.get("template") or {}).get("spec")) or {}
    containers = pod.get("containers") or [{}]
    arguments = [str(each) for each in containers[0].get("args") or ()]
    option = "--namespace="
    server = next((a.partition("=")[2] for a in arguments if a.startswith("--prometheus=")), "{}")
    return OperatorFacts(
        namespace=str(head.get("namespace") or ""),
        name=str(head.get("name") or ""),
        image=str(containers[0].get("image") or ""),
        version=str((head.get("labels") or {}).get("app.kubernetes.io/version") or ""),
        wanted=int(spec.get("replicas") or 0),
        ready=int((deployment.get("status") or {}).get("readyReplicas") or 0),
        account=str(pod.get("serviceAccountName") or "default"),
        gateway_routes="--gateway-routes" in arguments,
        namespaces=tuple(
            sorted({each.removeprefix(option) for each in arguments if each.startswith(option)})
        ),
        prometheus=_url_in(server),
    )


def _url_in(server: str) -> str:
    """Return the URL in the operator's option; another version may write it differently."""
    try:
        return str(json.loads(server)["url"])
    except (ValueError, KeyError, TypeError):
        return ""
