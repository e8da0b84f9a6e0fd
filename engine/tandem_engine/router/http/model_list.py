"""The models of the pool, as OpenAI's clients list them."""

import json
from collections.abc import Mapping

from aiohttp import web

from tandem_contracts.router_settings import RouterSettings
from tandem_engine.router.openai.errors import ApiError


def model_list(settings: RouterSettings, name: str, *, created_s: int) -> web.Response:
    """Return all models, or the one of this name; raises `ApiError` if there is none."""
    cards = [
        {
            "id": model,
            "object": "model",
            "created": created_s,
            "owned_by": "tandem",
            "max_model_len": settings.max_model_len,
        }
        for model in settings.models
    ]
    if not name:
        return _json({"object": "list", "data": cards})
    for card in cards:
        if card["id"] == name:
            return _json(card)
    raise ApiError(404, "This model is not served here.", code="model_not_found")


def _json(document: Mapping[str, object]) -> web.Response:
    # With no charset, as engines answer.
    return web.Response(body=json.dumps(document).encode(), content_type="application/json")
