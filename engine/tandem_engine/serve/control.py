"""The control port: probes and facts, answered from the lifecycle; it takes no action."""

from aiohttp import web

from tandem_contracts.engine_info import LONGEST_DEVICE, EngineInfo, MeasuredInfo, ShapeInfo
from tandem_contracts.parts import part_of
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
        known = lifecycle.info
        device = known.get("device")
        parts = {
            # A driver's name may have any length.
            "device": device and device[:LONGEST_DEVICE],
            "measured": part_of(MeasuredInfo, known.get("measured")),
            "shape": part_of(ShapeInfo, known.get("shape")),
        }
        info = EngineInfo.model_validate(
            known | parts | {"phase": lifecycle.phase, "reason": reason}
        )
        text = info.model_dump_json(indent=1) + "\n"
        return web.Response(text=text, content_type="application/json")

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
