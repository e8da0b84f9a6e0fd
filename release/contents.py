"""What is inside an image: Python and Debian packages, read from its files without running it."""

from __future__ import annotations

import json
import re
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesParser, Parser
from typing import IO

from e2e.cluster.progress import CannotContinueError, run

_METADATA = re.compile(r".*\.dist-info/METADATA")
_DPKG = re.compile(r"var/lib/dpkg/status(\.d/[^/]+)?")


@dataclass(frozen=True, slots=True, order=True)
class Component:
    """One package inside an image; `kind` and `namespace` are those of its package URL."""

    kind: str
    name: str
    version: str
    license: str = ""
    namespace: str = ""

    @property
    def purl(self) -> str:
        """Its package URL."""
        middle = f"{self.namespace}/" if self.namespace else ""
        return f"pkg:{self.kind}/{middle}{self.name}@{self.version.replace('+', '%2B')}"


def components_of(tag: str) -> list[Component]:
    """Everything that is installed in an image that Docker holds, each once."""
    environment = json.loads(
        run(["docker", "image", "inspect", "--format", "{{json .Config.Env}}", tag])
    )
    with _exported(tag) as stream, tarfile.open(fileobj=stream, mode="r|") as files:
        return sorted({*interpreter(environment), *installed(files)})


def interpreter(environment: list[str]) -> Iterator[Component]:
    """The Python of the published base image, which Debian's list does not have."""
    for pair in environment:
        name, _, value = pair.partition("=")
        if name == "PYTHON_VERSION":
            yield Component("generic", "python", value, "PSF-2.0")


def installed(files: tarfile.TarFile) -> Iterator[Component]:
    """The packages whose own records stand among the files."""
    for member in files:
        source = files.extractfile(member) if member.isfile() else None
        if source is None:
            continue
        name = member.name.removeprefix("./")
        if _METADATA.fullmatch(name):
            yield from _python(source)
        elif _DPKG.fullmatch(name):
            yield from _debian(source.read().decode(errors="replace"))


def _python(source: IO[bytes]) -> Iterator[Component]:
    head = BytesParser().parsebytes(source.read(), headersonly=True)
    if head["Name"] and head["Version"]:
        name = re.sub(r"[-_.]+", "-", head["Name"]).lower()
        yield Component("pypi", name, head["Version"], _license_of(head))


def _license_of(head: Message) -> str:
    return str(head["License-Expression"] or head["License"] or "").strip()


def _debian(status: str) -> Iterator[Component]:
    for paragraph in status.split("\n\n"):
        fields = Parser().parsestr(paragraph.lstrip("\n"), headersonly=True)
        if fields["Package"] and fields["Version"] and _is_there(fields["Status"]):
            yield Component("deb", fields["Package"], fields["Version"], namespace="debian")


def _is_there(status: str | None) -> bool:
    # Distroless images keep no status.
    return status is None or status.endswith(" installed")


@contextmanager
def _exported(tag: str) -> Iterator[IO[bytes]]:
    """The files of an image as one tar stream."""
    container = run(["docker", "create", tag, "none"]).strip()
    try:
        with subprocess.Popen(["docker", "export", container], stdout=subprocess.PIPE) as export:
            assert export.stdout is not None
            yield export.stdout
            while export.stdout.read(1 << 20):
                pass
        if export.returncode != 0:
            raise CannotContinueError(f"`docker export` of {tag} ended with {export.returncode}.")
    finally:
        run(["docker", "rm", "--force", container])
