"""The check of `helm test`: a sentence for each thing that is missing."""

import pytest
from aiohttp import web

from e2e.cluster.ports import free_ports
from tandem_operator.installed import faults, wait_until_installed
from tandem_operator.kube.client import ApiServerError
from tandem_operator.kube.kinds import POOL, POOL_ROLE


class Discovery:
    """Answers what an API server says about the kind of pools, one answer after the other."""

    def __init__(self, *answers, roles=True):
        self.answers = list(answers)
        self.roles = roles

    async def serves(self, kind):
        if kind is POOL_ROLE:
            return self.roles
        assert kind is POOL
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
async def health():
    """An operator's health port: its URL, and the status that it answers with."""
    state = {"status": 200, "text": "ok\n"}

    async def answer(_):
        return web.Response(status=state["status"], text=state["text"])

    app = web.Application()
    app.router.add_get("/readyz", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    [port] = free_ports(1)
    await web.TCPSite(runner, "127.0.0.1", port).start()
    yield f"http://127.0.0.1:{port}/readyz", state
    await runner.cleanup()


async def test_nothing_is_missing_where_the_crds_are_served_and_the_operator_answers(health):
    assert await faults(Discovery(True), health[0]) == ()


async def test_a_crd_that_is_not_served_is_missing(health):
    [fault] = await faults(Discovery(False), health[0])

    assert "inferencepools.tandem-inference.io; set crds.enabled to true, or install" in fault


async def test_the_crds_of_a_version_before_lack_one(health):
    [fault] = await faults(Discovery(True, roles=False), health[0])

    assert "does not serve poolroles.tandem-inference.io; set crds.enabled to true" in fault


async def test_an_api_server_that_refuses_is_quoted(health):
    refusal = ApiServerError(403, {"reason": "Forbidden", "message": "no"}, "GET /apis")

    [fault] = await faults(Discovery(refusal), health[0])

    assert "Forbidden" in fault


async def test_an_operator_that_is_not_ready_says_why(health):
    url, state = health
    state.update(status=500, text="pools: cannot be listed\n")

    [fault] = await faults(Discovery(True), url)

    assert fault == "The operator is not ready: pools: cannot be listed."


async def test_an_operator_that_is_away_is_named_by_its_url():
    [port] = free_ports(1)

    [fault] = await faults(Discovery(True), f"http://127.0.0.1:{port}/readyz")

    assert f"does not answer at http://127.0.0.1:{port}/readyz" in fault


async def test_what_comes_up_late_is_waited_for(health):
    api = Discovery(False, True)

    assert await wait_until_installed(api, health[0], patience_s=10.0) == ()


async def test_what_never_comes_up_is_told_after_a_while(health):
    [fault] = await wait_until_installed(Discovery(False), health[0], patience_s=0.05)

    assert "does not serve" in fault
