"""Values of Secrets and ConfigMaps that a pool names."""

import base64

import pytest
from aiohttp import web

from tandem_operator.kube.named_values import KEPT_S, NamespaceValues
from tests.unit.kube.apiserver import Clock

TOKEN = {"data": {"token": base64.b64encode(b"mine").decode(), "odd": "%"}}


@pytest.fixture
def held(api):
    kube, recorder = api
    objects = {}
    read = []

    def listed(path):
        read.append(path)
        found = objects.get(path)
        if isinstance(found, int):
            return web.json_response({"reason": "No", "message": "s3cr3t"}, status=found)
        return web.json_response(found) if found else web.json_response({}, status=404)

    recorder._listed = listed
    clock = Clock()
    return NamespaceValues(kube, clock=clock), objects, read, clock


SECRET, CONFIG_MAP = "/api/v1/namespaces/ns/secrets/s", "/api/v1/namespaces/ns/configmaps/c"


async def secret(values, key="token"):
    return await values.of_secret(namespace="ns", name="s", key=key)


async def test_one_read_serves_half_a_minute_of_passes(held):
    values, objects, read, clock = held
    objects[SECRET] = TOKEN

    assert await secret(values) == b"mine"
    objects[SECRET] = {"data": {"token": base64.b64encode(b"new").decode()}}
    assert await secret(values) == b"mine"
    clock.now_s += KEPT_S
    assert await secret(values) == b"new"

    assert read == [SECRET] * 2


async def test_a_value_of_a_config_map_is_read(held):
    values, objects, *_ = held
    objects[CONFIG_MAP] = {"data": {"ca.crt": "PEM"}}

    assert await values.of_config_map(namespace="ns", name="c", key="ca.crt") == b"PEM"


@pytest.mark.parametrize(
    ("found", "key", "why"),
    [
        (None, "token", "there is no Secret s in the pool's namespace"),
        (403, "token", "the operator may not read Secret s; grant it `get` of this one"),
        (500, "token", "the API server shows no Secret s: HTTP 500"),
        (TOKEN, "other", "Secret s has no key other"),
        (TOKEN, "odd", "Secret s: its odd is not base64"),
    ],
)
async def test_why_there_is_no_value_is_told_without_it(held, found, key, why):
    values, objects, read, _ = held
    objects[SECRET] = found

    for _ in range(2):
        with pytest.raises(LookupError) as told:
            await secret(values, key)
        assert str(told.value) == why

    assert len(read) == 1
