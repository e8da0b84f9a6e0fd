"""The parser of a page of a router's `/requests`: one wrong part makes the page invalid."""

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, FiniteFloat, TypeAdapter

from tandem_operator.metrics.lenient import Lenient, parse_bounded

MARK_BYTES = 8
MOST_ROWS = 10_000
MOST_MARKS = 4096

Count = Annotated[int, Field(ge=0, le=2**53)]
Moment = Annotated[FiniteFloat, Field(ge=0, le=1e12)]
Marks = Annotated[str, Field(max_length=MOST_MARKS * MARK_BYTES * 4 // 3 + 4)]
Tenant = Annotated[str, Field(max_length=63)]
Tenants = Annotated[list[Tenant], Field(max_length=MOST_ROWS)]
Row = tuple[Moment, Count, Count | None, Count, bool, Marks]

COLUMNS = ("arrived_s", "prompt_tokens", "cached_tokens", "output_tokens", "whole", "marks")


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """One request as its router saw it.

    Attributes:
        cached_tokens: `None` if no engine reported them.
        output_tokens: tokens of the whole answer if it is `whole`, else those made so far.
        marks: two requests share as many first marks as equal chunks from the first byte on.
        tenant: a name of the pool's settings, or `other`; empty: none is known.
    """

    arrived_s: float
    prompt_tokens: int
    cached_tokens: int | None
    output_tokens: int
    whole: bool
    marks: tuple[bytes, ...]
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """One page; `next` is the start of the following one, `None` for the last."""

    router: str
    now_s: float
    complete_since_s: float
    requests: tuple[SeenRequest, ...]
    next: int | None


class _Page(Lenient):
    version: Literal[1] = Field(alias="schema")
    router: Annotated[str, Field(max_length=253)]
    now_s: Moment
    complete_since_s: Moment
    columns: Annotated[tuple[str, ...], Field(max_length=len(COLUMNS))]
    rows: Annotated[list[Row], Field(max_length=MOST_ROWS)]
    inside: Annotated[list[Row], Field(max_length=MOST_ROWS)]
    row_tenants: Tenants = Field(default_factory=list)
    inside_tenants: Tenants = Field(default_factory=list)
    next: Count | None


_PAGE: TypeAdapter[_Page] = TypeAdapter(_Page)


def parse_page(raw: bytes) -> Page:
    """Return the page; raises `ValueError` that names the fault."""
    try:
        page: _Page = parse_bounded(_PAGE, raw)
        if page.columns != COLUMNS:
            raise ValueError(f"columns must be {', '.join(COLUMNS)}")
        requests = (
            *_requests(page.rows, page.row_tenants, "row_tenants"),
            *_requests(page.inside, page.inside_tenants, "inside_tenants"),
        )
    except ValueError as error:
        raise ValueError(f"/requests: {error}") from None
    return Page(
        router=page.router,
        now_s=page.now_s,
        complete_since_s=page.complete_since_s,
        requests=requests,
        next=page.next,
    )


def _requests(rows: list[Row], tenants: list[str], name: str) -> Iterator[SeenRequest]:
    """Yield the requests of rows; a router whose pool has no tenants tells none."""
    told = tenants or [""] * len(rows)
    if len(told) != len(rows):
        raise ValueError(f"{name} must have {len(rows)} names, one for each row")
    yield from (_request(row, tenant) for row, tenant in zip(rows, told, strict=True))


def _request(row: Row, tenant: str) -> SeenRequest:
    arrived_s, prompt, cached, output, whole, text = row
    marks = base64.b64decode(text, validate=True)
    return SeenRequest(
        arrived_s=arrived_s,
        prompt_tokens=prompt,
        cached_tokens=cached,
        output_tokens=output,
        whole=whole,
        marks=tuple(
            marks[at : at + MARK_BYTES] for at in range(0, len(marks) - MARK_BYTES + 1, MARK_BYTES)
        ),
        tenant=tenant,
    )
