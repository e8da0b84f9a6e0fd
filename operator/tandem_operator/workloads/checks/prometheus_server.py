"""The Prometheus server of a pool, and the author's choices about it. Pure.

The installation's token goes only to the installation's server, with the tenant and the authorities
that the installation chose. An author who chooses these must also give a token.
"""

import re
from collections.abc import Iterator

from tandem_operator.api.v1alpha1.scaling import Metrics, MetricsSource, Prometheus
from tandem_operator.workloads.checks import addresses
from tandem_operator.workloads.objection import Objection, name_objections
from tandem_operator.workloads.world import Installation, InstalledPrometheus

_FIELD = "metrics.prometheus"
_EXAMPLE_NAME = "prometheus-reader"
# The pattern reads several at once, with | between them.
_TENANT = re.compile(r"[-A-Za-z0-9!_.*'()|]+")


def server_url(metrics: Metrics, installation: Installation) -> str | None:
    """Return the server that is queried for a pool; `None` if only its pods are."""
    if metrics.source is MetricsSource.DIRECT:
        return None
    if metrics.prometheus is not None and metrics.prometheus.url is not None:
        return metrics.prometheus.url
    return None if installation.prometheus is None else installation.prometheus.url


def installed_server(url: str, installation: Installation) -> InstalledPrometheus | None:
    """Return the installation's settings for the server at this URL, if it is its own."""
    own = installation.prometheus
    return own if own is not None and addresses.is_same(url, own.url) else None


def server_objections(metrics: Metrics, installation: Installation) -> Iterator[Objection]:
    """Yield the reasons why the operator does not query a server as the pool asks."""
    if metrics.source is MetricsSource.DIRECT:
        return
    wanted, url = metrics.prometheus, server_url(metrics, installation)
    if url is None:
        if wanted is not None or metrics.source is MetricsSource.PROMETHEUS:
            yield Objection(
                f"{_FIELD}.url",
                f"{_FIELD}.url is needed, since the operator was installed without a Prometheus"
                f" server; write for example {addresses.EXAMPLE}",
            )
        return
    if wanted is None:
        return
    yield from _mistyped(wanted)
    own = installed_server(url, installation)
    if own is None:
        why = addresses.objection(url, allowed=installation.prometheus_urls)
        if why is not None:
            yield Objection(f"{_FIELD}.url", why)
    yield from _of_token(wanted, url, own)


def _mistyped(wanted: Prometheus) -> Iterator[Objection]:
    named = {"tokenSecretRef": wanted.token_secret_ref, "caConfigMapRef": wanted.ca_config_map_ref}
    for field, ref in named.items():
        if ref is not None:
            path = f"{_FIELD}.{field}.name"
            yield from name_objections(ref.name, path, example=_EXAMPLE_NAME)
    if wanted.tenant is not None and not _TENANT.fullmatch(wanted.tenant):
        yield Objection(
            f"{_FIELD}.tenant",
            f"{_FIELD}.tenant must be an id of Mimir or Cortex; write for example team-a",
        )


def _of_token(wanted: Prometheus, url: str, own: InstalledPrometheus | None) -> Iterator[Objection]:
    if wanted.token_secret_ref is not None:
        if not url.lower().startswith("https://"):
            yield Objection(
                f"{_FIELD}.tokenSecretRef",
                f"{_FIELD}.tokenSecretRef needs a server with TLS, since everybody on the way could"
                f" read the token; write an https:// URL into {_FIELD}.url",
            )
        return
    if own is None or own.token_file is None:
        return
    for field, value in {
        "tenant": wanted.tenant,
        "caConfigMapRef": wanted.ca_config_map_ref,
    }.items():
        if value is not None:
            yield Objection(
                f"{_FIELD}.{field}",
                f"{_FIELD}.{field} cannot be chosen with the installation's own token; leave it"
                f" out, or name a token of yours in {_FIELD}.tokenSecretRef",
            )
