"""The settings in force: parsed once at the edge, immutable inside.

A document that does not parse never replaces one that did.
"""

import json
import logging

from pydantic import ValidationError

from tandem_contracts.router_settings import RouterSettings

logger = logging.getLogger(__name__)


class SettingsError(ValueError):
    """A settings document that cannot be used; the message is one sentence."""


def parse_settings(text: str | bytes) -> RouterSettings:
    """Return the settings in `text`, or raise `SettingsError` with one sentence."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise SettingsError(f"router settings are not JSON: {error}") from error
    try:
        return RouterSettings.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "the document"
        raise SettingsError(
            f"router settings: {field}: {first['msg']} (found {first['input']!r:.80})"
        ) from error


class SettingsHolder:
    """The settings in force; `None` until the first document arrives."""

    def __init__(self, settings: RouterSettings | None = None) -> None:
        self.current = settings

    def take(self, text: str | bytes) -> bool:
        """Put the settings in `text` in force; return whether they differ from those before.

        Raises `SettingsError` if they are invalid; then the old ones stay in force.
        """
        settings = parse_settings(text)
        if settings == self.current:
            return False
        self.current = settings
        logger.info("settings in force", extra={"generation": settings.generation})
        return True
