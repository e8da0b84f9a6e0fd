"""The answers of the pool's endpoint to a client."""

import json

import pytest
import requests

from e2e.commands import CommandError, kubectl_json
from e2e.demo.setup import engine_key
from e2e.pools import Pool, wait_until
from e2e.trial import open_engine_door
from tandem_operator.core.role import Role
from tandem_operator.workloads.stored_memory import memory_from_json

PROMPT = list(range(20, 420))


def complete(url, *, headers=None, **changes):
    body = {"model": "tiny", "prompt": PROMPT, "max_tokens": 12, "temperature": 0, **changes}
    return requests.post(
        f"{url}/v1/completions", json=body, headers=headers, timeout=60, stream=True
    )


def events(answer):
    lines = [line[5:].strip() for line in answer.iter_lines() if line.startswith(b"data:")]
    assert lines[-1] == b"[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def test_a_ready_pool_names_its_endpoint(pool: Pool):
    status = pool.read()["status"]

    assert status["endpoint"] == f"http://{pool.name}-router.{pool.namespace}.svc"
    assert pool.is_observed()


def test_a_streamed_completion_says_the_same_as_a_whole_one(url):
    whole = complete(url)
    streamed = complete(url, stream=True)

    assert whole.status_code == streamed.status_code == 200
    text = "".join(event["choices"][0]["text"] for event in events(streamed) if event["choices"])
    assert whole.json()["choices"][0]["text"] == text
    assert whole.json()["usage"]["completion_tokens"] == 12
    assert whole.json()["usage"]["prompt_tokens"] == len(PROMPT)


def test_a_chat_is_answered_streamed_and_whole(url):
    body = {
        "model": "tiny",
        "messages": [{"role": "user", "content": "hello"}],
        "max_tokens": 8,
        "temperature": 0,
    }
    whole = requests.post(f"{url}/v1/chat/completions", json=body, timeout=60)
    streamed = requests.post(
        f"{url}/v1/chat/completions", json={**body, "stream": True}, timeout=60, stream=True
    )

    assert whole.status_code == streamed.status_code == 200
    text = "".join(
        event["choices"][0]["delta"].get("content") or ""
        for event in events(streamed)
        if event["choices"]
    )
    assert whole.json()["choices"][0]["message"]["content"] == text


def test_no_kv_parameter_reaches_a_client(url):
    assert "kv_transfer_params" not in complete(url).text
    assert "kv_transfer_params" not in complete(url, stream=True).text


def test_an_engine_serves_those_alone_that_have_the_pools_key(pool: Pool):
    engine = open_engine_door(pool)
    key = engine_key(namespace=pool.namespace, pool=pool.name)

    refused = complete(engine)
    served = complete(engine, headers={"Authorization": f"Bearer {key}"})

    assert refused.status_code == 401
    assert served.status_code == 200


def test_the_decode_pods_get_the_prompt_as_kv_and_compute_none_of_it(pool: Pool, url):
    def received(source):
        name = "vllm:prompt_tokens_by_source_total"
        return sum(
            pool.metric(pod.name, port=8000, name=name, source=source) or 0.0
            for pod in pool.pods("decode")
        )

    before = {source: received(source) for source in ("external_kv_transfer", "local_compute")}
    for number in range(8):
        prompt = [500 + number, *PROMPT]
        assert complete(url, prompt=prompt).json()["usage"]["completion_tokens"] == 12

    assert received("external_kv_transfer") - before["external_kv_transfer"] >= 8 * len(PROMPT)
    assert received("local_compute") - before["local_compute"] <= 8


def test_the_operator_knows_what_the_engines_measured_of_themselves(pool: Pool):
    def told():
        name = f"{pool.name}-memory"
        try:
            stored = kubectl_json("get", "configmap", name, "-n", pool.namespace)
        except CommandError:
            return None
        memory = memory_from_json(stored["data"]["memory.json"])
        return [each for each in memory.learned.engines.values() if set(each.told_by) == set(Role)]

    [models] = wait_until(told, within_s=120.0, what="start-up measurements of both roles")
    for first in (models.service.first, models.step.first):
        assert first.measured
        assert 0.0 < first.fixed_s + first.slope_s < 1.0
    assert models.step.first.fixed_s > 0.0


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"model": "no-such-model"}, 404),
        ({"prompt": [20] * 5000}, 400),
        ({"max_tokens": -1}, 400),
    ],
)
def test_a_bad_request_gets_an_openai_error(url, changes, status):
    answer = complete(url, **changes)

    assert answer.status_code == status
    assert answer.json()["error"]["message"]


def test_the_served_model_is_listed(url):
    listed = requests.get(f"{url}/v1/models", timeout=10).json()

    assert [model["id"] for model in listed["data"]] == ["tiny"]
