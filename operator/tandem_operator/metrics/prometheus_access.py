"""Access to a pool's Prometheus server: the token, authorities and tenant of each query.

A token is only in a header: no text of this module, and no `repr`, contains one.
"""

import hashlib
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Protocol

import aiohttp

from tandem_operator.api.v1alpha1.scaling import Metrics, Prometheus
from tandem_operator.metrics.scrape_budget import NoAnswerError, ScrapeBudget
from tandem_operator.workloads.checks.prometheus_server import (
    installed_server,
    server_objections,
    server_url,
)
from tandem_operator.workloads.world import Installation, InstalledPrometheus

TENANT_HEADER = "X-Scope-OrgID"
TOKEN_KEY, AUTHORITY_KEY = "token", "ca.crt"
LONGEST_TOKEN_BYTES = 16 * 1024
LARGEST_BUNDLE_BYTES = 256 * 1024
_TOKEN = re.compile(rb"[\x21-\x7e]+")


class NamedValues(Protocol):
    """Values of a pool's namespace; a `LookupError` says in words why a value is missing."""

    async def of_secret(self, *, namespace: str, name: str, key: str) -> bytes:
        """Return a value of a Secret."""
        ...

    async def of_config_map(self, *, namespace: str, name: str, key: str) -> bytes:
        """Return a value of a ConfigMap."""
        ...


@dataclass(frozen=True, slots=True)
class ServerAccess:
    """One server, and the parts of each query to it.

    Attributes:
        session: session that connects only to addresses that a pool's author may use.
        authorities: the only trusted authorities; `None`: those of this machine.
    """

    session: aiohttp.ClientSession
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    authorities: ssl.SSLContext | None = None

    @property
    def asker(self) -> str:
        """Return the identity at the server as a digest: a token may only be in a header."""
        told = sorted((name.lower(), value) for name, value in self.headers.items())
        return hashlib.sha256(repr(told).encode()).hexdigest()


class PrometheusAccess:
    """A finder of each pool's server, with everything that a query needs.

    Args:
        open_session: session for servers that the installation names.
        guarded_session: session for servers that pool authors name.
    """

    def __init__(
        self,
        installation: Installation,
        *,
        values: NamedValues,
        open_session: aiohttp.ClientSession,
        guarded_session: aiohttp.ClientSession,
    ) -> None:
        self._installation = installation
        self._values = values
        self._open, self._guarded = open_session, guarded_session

    async def of(
        self, metrics: Metrics, *, namespace: str, budget: ScrapeBudget
    ) -> ServerAccess | None:
        """Return the server of a pool; `None` without one. A `NoAnswerError` says why it fails."""
        # A pool whose spec is refused is still measured, but not by a server that it may not use.
        for each in server_objections(metrics, self._installation):
            raise NoAnswerError(f"Prometheus is not asked: {each}")
        url = server_url(metrics, self._installation)
        if url is None:
            return None
        wanted = metrics.prometheus or Prometheus()
        own = installed_server(url, self._installation)
        named = own is not None or bool(self._installation.prometheus_urls)
        try:
            token = await self._token(wanted, own, namespace)
            bundle = await self._bundle(wanted, own, namespace)
        except (LookupError, OSError) as error:
            why = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else error
            raise NoAnswerError(f"Prometheus: {why}") from None
        authorities = None
        if bundle is not None:
            authorities = await budget.read(partial(_authorities, bundle), of="Prometheus")
        headers = dict(own.headers) if own is not None else {}
        if wanted.tenant is not None:
            headers = {n: v for n, v in headers.items() if n.lower() != TENANT_HEADER.lower()}
            headers[TENANT_HEADER] = wanted.tenant
        if token is not None:
            headers["Authorization"] = f"Bearer {_checked(token)}"
        session = self._open if named else self._guarded
        return ServerAccess(session, url, headers, authorities)

    async def _token(
        self, wanted: Prometheus, own: InstalledPrometheus | None, namespace: str
    ) -> bytes | None:
        if (ref := wanted.token_secret_ref) is not None:
            return await self._values.of_secret(namespace=namespace, name=ref.name, key=TOKEN_KEY)
        if own is None or own.token_file is None:
            return None
        return _mounted(own.token_file)

    async def _bundle(
        self, wanted: Prometheus, own: InstalledPrometheus | None, namespace: str
    ) -> bytes | None:
        if (ref := wanted.ca_config_map_ref) is not None:
            return await self._values.of_config_map(
                namespace=namespace, name=ref.name, key=AUTHORITY_KEY
            )
        if own is None or own.authority_file is None:
            return None
        return _mounted(own.authority_file)


def _mounted(file: str) -> bytes:
    # It is small and in memory. Each call reads it again: the kubelet replaces it after a change.
    return Path(file).read_bytes()


def _checked(token: bytes) -> str:
    token = token.strip()
    if len(token) > LONGEST_TOKEN_BYTES or _TOKEN.fullmatch(token) is None:
        raise NoAnswerError(
            "Prometheus: its token is empty, or holds more than printable ASCII without blanks"
        )
    return token.decode("ascii")


@lru_cache(maxsize=64)
def _authorities(bundle: bytes) -> ssl.SSLContext:
    """Return a context that trusts these alone. The same bundle gives the same context."""
    if len(bundle) > LARGEST_BUNDLE_BYTES:
        raise NoAnswerError(
            f"Prometheus: its certificate authorities are larger than {LARGEST_BUNDLE_BYTES} B"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=bundle.decode("ascii", errors="ignore"))
    except (ssl.SSLError, ValueError):
        raise NoAnswerError("Prometheus: its certificate authorities are not in PEM") from None
    return context
