"""The headers of every answer, and the answers to paths that do not exist."""

import asyncio

import pytest

from tests.unit.router.pool import Pool

ASKED = [
    ("GET", "/health"),
    ("GET", "/ready"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/nobody"),
    ("GET", "/v1/completions"),
    ("POST", "/v1/completions"),
    ("POST", "/v1/completions/"),
    ("POST", "/v1/nowhere"),
    ("POST", "/v1/embeddings"),
    ("POST", "/tokenize"),
]


@pytest.mark.parametrize(("method", "path"), ASKED)
async def test_every_answer_tells_its_id_and_no_version(pool: Pool, method: str, path: str) -> None:
    given = {"X-Request-Id": "mine-7"}
    url = pool.url + path
    async with pool.client.request(method, url, headers=given, allow_redirects=False) as answer:
        assert answer.headers["X-Request-Id"] == "mine-7"
        assert answer.headers["Server"] == "tandem-router"
    async with pool.client.request(method, url, allow_redirects=False) as answer:
        assert len(answer.headers["X-Request-Id"]) == 32


@pytest.mark.parametrize("stream", [True, False])
async def test_answers_of_engines_tell_no_version_either(pool: Pool, stream: bool) -> None:
    body = {"model": "tiny", "prompt": "one", "stream": stream}
    async with pool.client.post(f"{pool.url}/v1/completions", json=body) as answer:
        assert answer.headers.getall("Server") == ["tandem-router"]


async def test_what_is_no_http_is_answered_with_an_id_and_no_version(pool: Pool) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", pool.router.port)
    writer.write(b"NONSENSE\r\n\r\n")
    answer = await reader.read()
    writer.close()

    assert b"Server: tandem-router\r\n" in answer
    assert b"X-Request-Id: " in answer


async def test_the_port_for_operator_and_prometheus_tells_no_version(pool: Pool) -> None:
    for path in ("/metrics", "/arrivals", "/nowhere"):
        url = f"http://127.0.0.1:{pool.router.internal_port}{path}"
        async with pool.client.get(url) as answer:
            assert answer.headers["Server"] == "tandem-router"


@pytest.mark.parametrize(
    ("asked", "place"),
    [
        ("/v1/completions/", "/v1/completions"),
        ("/v1/chat/completions//", "/v1/chat/completions"),
        ("/v1/messages/?beta=true", "/v1/messages?beta=true"),
        ("/v1/models/", "/v1/models"),
        ("/tokenize/", "/tokenize"),
        ("/health/", "/health"),
    ],
)
async def test_a_slash_at_the_end_leads_to_the_path_without_it(
    pool: Pool, asked: str, place: str
) -> None:
    async with pool.client.post(pool.url + asked, data=b"{}", allow_redirects=False) as answer:
        assert answer.status == 307
        assert answer.headers["Location"] == place


async def test_a_client_that_follows_the_redirect_with_the_same_body_is_served(pool: Pool) -> None:
    body = {"model": "tiny", "prompt": "one"}
    async with pool.client.post(f"{pool.url}/v1/completions/", json=body) as answer:
        assert answer.status == 200
        assert answer.url.path == "/v1/completions"


@pytest.mark.parametrize("path", ["/v1/nowhere/", "//elsewhere.example/", "/"])
async def test_a_slash_leads_nowhere_from_a_path_that_is_none(pool: Pool, path: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", pool.router.port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: pool\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()

    assert answer.startswith(b"HTTP/1.1 404 ")
    assert b"Location" not in answer


async def test_embeddings_are_refused_with_what_would_give_them(pool: Pool) -> None:
    status, answer, _ = await pool.post({"model": "tiny", "input": "a"}, "/v1/embeddings")

    assert status == 404
    assert "embedding model" in answer["error"]["message"]
