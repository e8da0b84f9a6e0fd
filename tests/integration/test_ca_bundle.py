"""The operator's HTTP client reads the variable that the chart sets for `caBundle`."""

import os
import subprocess
import sys

import pytest

# An API server is a server with a certificate of its own authority.
ASK = """
import asyncio, sys
from tandem_operator.metrics.sessions import servers_session

async def ask(url):
    async with servers_session(named=True) as session, session.get(url) as answer:
        print("answered", answer.status)

asyncio.run(ask(sys.argv[1]))
"""


@pytest.mark.parametrize("trusted", [True, False])
def test_a_server_of_an_own_authority_is_asked_only_with_the_bundle(control_plane, trusted):
    clean = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
    bundle = {"SSL_CERT_FILE": str(control_plane.certificate_authority)} if trusted else {}

    asked = subprocess.run(
        [sys.executable, "-c", ASK, f"{control_plane.url}/version"],
        env=clean | bundle,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ("answered" in asked.stdout) is trusted
    assert ("CERTIFICATE_VERIFY_FAILED" in asked.stderr) is not trusted
