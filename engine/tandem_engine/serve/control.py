"""The control port: probes and facts, answered from the lifecycle alone; nothing is done here."""

import json

from aiohttp import web

from tandem_engine.serve.lifecycle import Lifecycle


def control_app(lifecycle: Lifecycle) -> web.Application:
    """Return the application behind the control port."""

    def probe(good: bool) -> web.Response:
        return web.Response(status=200 if good else 503, text=lifecycle.words + "\n")

    async def live(_: web.Request) -> web.Response:
        return probe(lifecycle.live)

    async def ready(_: web.Request) -> web.Response:
        return probe(lifecycle.ready)

    async def startup(_: web.Request) -> web.Response:
        return probe(lifecycle.started_up)

    async def info(_: web.Request) -> web.Response:
        reason = lifecycle.reason or lifecycle.doubt
        body = lifecycle.info | {"phase": lifecycle.phase, "reason": reason}
        return web.json_response(body, dumps=lambda value: json.dumps(value, indent=1) + "\n")

    app = web.Application()
    app.add_routes(
        [
            web.get("/live", live),
            web.get("/ready", ready),
            web.get("/startup", startup),
            web.get("/info", info),
        ]
    )
    return app
