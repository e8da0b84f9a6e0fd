"""The option that names an installation's own Prometheus server, as the chart writes it."""

import argparse
import re
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from tandem_operator.workloads.world import InstalledPrometheus

_NAME, _VALUE = re.compile(r"[A-Za-z0-9][-A-Za-z0-9]*"), re.compile(r"[\x20-\x7e]*")


class _Option(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, strict=True)

    url: Annotated[str, Field(pattern=r"^https?://[^\s?#@]+$")]
    headers: dict[str, str] = {}
    token_file: Annotated[str, Field(min_length=1)] | None = None
    authority_file: Annotated[str, Field(min_length=1)] | None = None


def installed_prometheus(text: str) -> InstalledPrometheus:
    """Return the server that a JSON object describes."""
    try:
        option = _Option.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the option"
        raise argparse.ArgumentTypeError(f"{where}: {first['msg']}") from None
    if option.token_file is not None and not option.url.startswith("https://"):
        raise argparse.ArgumentTypeError("url: a token needs TLS; write an https:// URL")
    for name, value in option.headers.items():
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise argparse.ArgumentTypeError(f"headers: {name} is no header; write X-Scope-OrgID")
        if name.lower() == "authorization":
            raise argparse.ArgumentTypeError("headers: Authorization is not one; use tokenFile")
    return InstalledPrometheus(
        url=option.url,
        headers=option.headers,
        token_file=option.token_file,
        authority_file=option.authority_file,
    )
