"""Which class a request has: by its model name, its headers, `service_tier`, or its key.

What a client asks for, it gets only if the class is open to its key.
"""

from collections.abc import Mapping

from aiohttp import web

from tandem_contracts.router_settings import DEFAULT_CLASS, ClassSettings, RouterSettings
from tandem_engine.router.http.intake import credentials_of, digest_of
from tandem_engine.router.openai.call import Call
from tandem_engine.router.openai.errors import ApiError

HEADERS = ("X-Tandem-Class", "X-Gateway-Inference-Objective", "X-LLM-D-Inference-Objective")
"""The first of these in which a request has the name of a class names its class."""


def class_of_call(
    request: web.BaseRequest, call: Call, settings: RouterSettings
) -> ClassSettings | None:
    """Return the class of a request; `None` and errors as those of `class_of`."""
    if not settings.classes:
        return None
    return class_of(
        request.headers,
        settings,
        credentials=credentials_of(request),
        model=call.model,
        service_tier=call.service_tier,
    )


def class_of_head(request: web.BaseRequest, settings: RouterSettings) -> ClassSettings | None:
    """Return the class of a request whose body nobody reads: it only counts, so none is refused."""
    try:
        return class_of(request.headers, settings, credentials=credentials_of(request))
    except ApiError:
        return _default(settings)


def class_of(
    headers: Mapping[str, str],
    settings: RouterSettings,
    *,
    credentials: str | None,
    model: str | None = None,
    service_tier: str | None = None,
) -> ClassSettings | None:
    """Return the class, `None` where there are none; raises `ApiError` for one that is not open.

    A name that is no class means nothing: it may be one of another part of the path.
    """
    if not settings.classes:
        return None
    key = digest_of(credentials)
    asked = _asked(headers, settings, model=model, service_tier=service_tier)
    asked = asked or next((each for each in settings.classes if key in each.keys), None)
    asked = asked or _default(settings)
    if asked.keys and key not in asked.keys:
        raise ApiError(
            403,
            f"This API key may not use the class {asked.name!r};"
            " name another class, or ask the owner of the pool.",
            code="class_not_allowed",
        )
    return asked


def _asked(
    headers: Mapping[str, str],
    settings: RouterSettings,
    *,
    model: str | None,
    service_tier: str | None,
) -> ClassSettings | None:
    """Return the class that a request asks for; `None`: it asks for none."""
    of_model = next((each for each in settings.classes if model in each.models), None)
    if of_model is not None:
        return of_model
    by_name = {each.name: each for each in settings.classes}
    named = (*(headers.get(name) for name in HEADERS), service_tier)
    return next((by_name[name] for name in named if name in by_name), None)


def _default(settings: RouterSettings) -> ClassSettings:
    named = (each for each in settings.classes if each.name == DEFAULT_CLASS)
    return next(named, settings.classes[0])
