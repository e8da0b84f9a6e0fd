from aiohttp import web
from aiohttp.test_utils import TestServer

from e2e.demo.blame import with_causes


async def test_each_phase_has_the_late_requests_that_ended_in_it(story):
    runs = story.runs[:2]
    counts = {
        f"{runs[0].started_s:.3f}": {},
        f"{runs[1].started_s:.3f}": {"prefill": 3, "router_queue": 1},
    }
    at_the_end = {"prefill": 3, "router_queue": 8, "decode_step": 2}
    asked = []

    async def answer(request):
        asked.append(request.query["query"])
        found = counts.get(request.query["time"], at_the_end)
        result = [
            {"metric": {"cause": cause}, "value": [0, str(count)]} for cause, count in found.items()
        ]
        return web.json_response({"status": "success", "data": {"result": result}})

    app = web.Application()
    app.router.add_get("/api/v1/query", answer)
    async with TestServer(app) as server:
        found = await with_causes(
            runs, prometheus_url=str(server.make_url("/")), namespace="a", pool="tiny", scraped_s=0
        )

    assert [run.late_by_cause for run in found] == [
        {"prefill": 3, "router_queue": 1},
        {"router_queue": 7, "decode_step": 2},
    ]
    assert 'namespace="a",pool="tiny"' in asked[0]
