"""The head of an answer that the router sends by itself, for each kind of client."""

from unittest.mock import create_autospec

import pytest
from aiohttp import HttpVersion10, HttpVersion11, web

from tandem_engine.router.forwarding.client_stream import ClientAnswer


def head(
    *, length: int | None, new: bool = True, keeps: bool = True, closing: bool = False
) -> tuple[list[str], bool, bool | None]:
    """Return the lines of a head but its date, and what it says of chunks and the connection."""
    request = create_autospec(web.BaseRequest, instance=True)
    request.version, request.keep_alive = HttpVersion11 if new else HttpVersion10, keeps
    answer = ClientAnswer({"X-Request-Id": "r1"}, length=length)
    assert not answer.prepared

    raw, chunked = answer.head(request, closing=closing)

    assert answer.prepared
    lines = raw.decode().split("\r\n")
    assert lines[-2:] == ["", ""]
    assert lines[-3].startswith("Date: ")
    assert lines[-3].endswith(" GMT")
    return lines[:-3], chunked, answer.keep_alive


OK, OLD, ID = "HTTP/1.1 200 OK", "HTTP/1.0 200 OK", "X-Request-Id: r1"


def test_a_stream_comes_in_chunks() -> None:
    assert head(length=None) == ([OK, ID, "Transfer-Encoding: chunked"], True, True)


def test_a_document_has_a_length() -> None:
    assert head(length=7) == ([OK, ID, "Content-Length: 7"], False, True)


@pytest.mark.parametrize(("keeps", "closing"), [(False, False), (True, True)])
def test_the_last_answer_on_a_connection_says_so(keeps: bool, closing: bool) -> None:
    assert head(length=7, keeps=keeps, closing=closing) == (
        [OK, ID, "Content-Length: 7", "Connection: close"],
        False,
        False,
    )


def test_a_stream_to_an_old_client_ends_with_its_connection() -> None:
    assert head(length=None, new=False) == ([OLD, ID], False, False)


def test_an_old_client_that_keeps_its_connection_is_told_that_it_can() -> None:
    assert head(length=7, new=False) == (
        [OLD, ID, "Content-Length: 7", "Connection: keep-alive"],
        False,
        True,
    )


def test_a_line_break_in_a_header_begins_no_answer() -> None:
    answer = ClientAnswer({"X-Request-Id": "r1\r\nX-More: 1"})
    request = create_autospec(web.BaseRequest, instance=True)
    request.version = HttpVersion11

    with pytest.raises(ValueError, match="line break"):
        answer.head(request, closing=False)

    assert not answer.prepared
