"""Settings and endpoints from files, for use outside a cluster; the files are re-read on change."""

import asyncio
import logging
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from tandem_engine.router.pods.fleet import EnginePods
from tandem_engine.router.pods.pod import Endpoint, Role
from tandem_engine.router.settings_in_force import SettingsError, SettingsHolder

_LOOK_EVERY_S = 0.2

logger = logging.getLogger(__name__)


class _FileEndpoint(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(min_length=1)]
    role: Role
    host: Annotated[str, Field(min_length=1)]
    port: Annotated[int, Field(ge=1, le=65535)]
    revision: str = ""


_ENDPOINTS = TypeAdapter(list[_FileEndpoint])


def parse_endpoints(text: bytes) -> list[Endpoint]:
    """Return the endpoints in `text`, or raise `SettingsError` with one sentence."""
    try:
        entries = _ENDPOINTS.validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "the document"
        raise SettingsError(f"endpoints file: {field}: {first['msg']}") from error
    return [Endpoint(**entry.model_dump()) for entry in entries]


class FileSource:
    """Follows both files."""

    def __init__(
        self,
        *,
        settings_path: Path,
        endpoints_path: Path,
        settings: SettingsHolder,
        fleet: EnginePods,
    ) -> None:
        self._settings_path = settings_path
        self._endpoints_path = endpoints_path
        self._settings = settings
        self._fleet = fleet
        self._seen: dict[Path, bytes] = {}

    def load(self) -> None:
        """Read both files now; raises `SettingsError` or `OSError` if one is unusable."""
        text = self._settings_path.read_bytes()
        if self._seen.get(self._settings_path) != text:
            self._seen[self._settings_path] = text
            if self._settings.take(text):
                self._fleet.announce()
        text = self._endpoints_path.read_bytes()
        if self._seen.get(self._endpoints_path) != text:
            self._seen[self._endpoints_path] = text
            self._fleet.replace(parse_endpoints(text))

    async def run(self) -> None:
        """Re-read the files on change, for ever; an unusable file changes nothing."""
        while True:
            try:
                self.load()
            except (SettingsError, OSError) as error:
                logger.error("kept what was in force", extra={"why": str(error)})
                await asyncio.sleep(_LOOK_EVERY_S * 5)
            await asyncio.sleep(_LOOK_EVERY_S)
