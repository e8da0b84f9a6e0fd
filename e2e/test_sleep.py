"""A pool at zero on kind: requests wake it again and again, and none is lost."""

import os
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
import requests

from e2e.commands import kubectl_json
from e2e.pools import LABEL, Pool, wait_until
from tandem_operator.core.role import Role

WAKES = int(os.environ.get("TANDEM_E2E_WAKES", "2"))
"""`TANDEM_E2E_WAKES=20` takes about 40 minutes."""
SLEEPS_WITHIN_S, WAKES_WITHIN_S = 240.0, 240.0


@pytest.fixture
def sleeper(pool: Pool) -> Iterator[Pool]:
    """The pool, which may go to zero for as long as the test lasts."""
    pool.patch({"scaling": {"scaleToZeroAfter": "1m"}})
    yield pool
    pool.patch({"scaling": {"scaleToZeroAfter": None}})
    pool.wait_ready()


def engines(pool: Pool) -> list[dict[str, Any]]:
    """Return its engine pods that are not on their way out."""
    selector = f"{LABEL}/pool={pool.name},{LABEL}/role in ({','.join(Role)})"
    found = kubectl_json("get", "pods", "-n", pool.namespace, "-l", selector)["items"]
    return [each for each in found if "deletionTimestamp" not in each["metadata"]]


def start_s(pod: dict[str, Any]) -> float:
    """Return the time from its creation until it was Ready."""
    conditions = {each["type"]: each["lastTransitionTime"] for each in pod["status"]["conditions"]}
    created, ready = pod["metadata"]["creationTimestamp"], conditions["Ready"]
    return (datetime.fromisoformat(ready) - datetime.fromisoformat(created)).total_seconds()


@pytest.mark.timeout(60 + WAKES * (SLEEPS_WITHIN_S + WAKES_WITHIN_S))
def test_each_request_that_finds_the_pool_at_zero_wakes_it_and_is_answered(
    sleeper: Pool, url: str, manifest: dict[str, Any]
) -> None:
    body = {"model": manifest["spec"]["model"]["name"], "prompt": "Once upon", "max_tokens": 4}
    for wake in range(WAKES):
        wait_until(
            lambda: sleeper.condition("Available").get("reason") == "Asleep",
            within_s=SLEEPS_WITHIN_S,
            what="the pool at zero",
        )
        assert sleeper.condition("Ready")["status"] == "True"
        wait_until(lambda: not engines(sleeper), within_s=60.0, what="no engine pod")
        models = requests.get(f"{url}/v1/models", timeout=30.0).json()["data"]
        assert [each["id"] for each in models] == [body["model"]]

        began = time.monotonic()
        answer = requests.post(f"{url}/v1/completions", json=body, timeout=WAKES_WITHIN_S)
        took_s = time.monotonic() - began

        assert answer.status_code == 200, answer.text
        sleeper.wait_ready()
        longest_s = max(start_s(pod) for pod in engines(sleeper))
        told = sleeper.read()["status"]["sleep"]
        print(f"wake {wake}: {took_s:.1f} s, pods took {longest_s:.0f} s, {told['lastWake']}")
