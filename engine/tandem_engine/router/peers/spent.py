"""Messages between routers of a pool: how much tenants asked for, so that one limit holds for all.

A message has only what was asked for since the last one. A lost message only lets a tenant have a
little more. So each is sent once, and nothing waits for it.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from tandem_engine.router.peers.notice import MessagePart, not_valid
from tandem_routing.tenant_shares import MOST_TENANTS

SPENT_PATH = "/spent"
MOST_SPENT_BYTES = 1024 * 1024
_MOST_REQUESTS = 10_000_000
_MOST_TOKENS = 1_000_000_000_000


@dataclass(frozen=True, slots=True)
class Spent:
    """Requests and tokens that a tenant asked for at one router.

    Attributes:
        tokens: below zero if answers were shorter than expected.
    """

    tenant: str
    requests: int
    tokens: int


class _Spent(MessagePart):
    tenant: Annotated[str, Field(max_length=253)]
    requests: Annotated[int, Field(ge=0, le=_MOST_REQUESTS)]
    tokens: Annotated[int, Field(ge=-_MOST_TOKENS, le=_MOST_TOKENS)]


class _Document(MessagePart):
    schema_version: Literal[1] = Field(alias="schema")
    spent: Annotated[list[_Spent], Field(max_length=MOST_TENANTS)]


def document_of(spent: Iterable[Spent]) -> bytes:
    """Return what tenants asked for as JSON."""
    rows = [
        {"tenant": each.tenant, "requests": each.requests, "tokens": each.tokens} for each in spent
    ]
    return json.dumps({"schema": 1, "spent": rows}).encode()


def parse_spent(raw: bytes) -> list[Spent]:
    """Return what tenants asked for, from `raw`, or raise `NoticeError` with one sentence."""
    try:
        document = _Document.model_validate_json(raw)
    except ValidationError as error:
        raise not_valid(error) from error
    return [Spent(each.tenant, each.requests, each.tokens) for each in document.spent]


class Spending:
    """What tenants asked for here since the last message, of as many as one message takes."""

    def __init__(self) -> None:
        self._of: dict[str, Spent] = {}

    def __len__(self) -> int:
        """Return the number of tenants that the next message tells of."""
        return len(self._of)

    def add(self, tenant: str, *, requests: int, tokens: int) -> None:
        """Add what a tenant asked for, or gave back."""
        known = self._of.get(tenant)
        if known is None and len(self._of) >= MOST_TENANTS:
            return
        before = known or Spent(tenant, 0, 0)
        self._of[tenant] = Spent(tenant, before.requests + requests, before.tokens + tokens)

    def take(self) -> bytes | None:
        """Return the next message and forget its content; `None`: there is nothing to tell."""
        spent = [each for each in self._of.values() if each.requests or each.tokens]
        self._of.clear()
        return document_of(spent) if spent else None
