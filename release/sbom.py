"""The SBOM of an image: an SPDX 2.3 document, checked by the library's own validator."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from license_expression import ExpressionError
from spdx_tools.common.spdx_licensing import spdx_licensing
from spdx_tools.spdx.model import (
    Actor,
    ActorType,
    CreationInfo,
    Document,
    ExternalPackageRef,
    ExternalPackageRefCategory,
    Package,
    PackagePurpose,
    Relationship,
    RelationshipType,
    SpdxNoAssertion,
)
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document
from spdx_tools.spdx.writer.json.json_writer import write_document_to_file

from e2e.cluster.progress import CannotContinueError
from release.contents import Component
from release.images import Published
from release.order import Source

_DOCUMENT, _IMAGE = "SPDXRef-DOCUMENT", "SPDXRef-Image"
_LONGEST_EXPRESSION = 500
_NAMESPACE = "https://tandem-inference.io/sbom"


def write_sbom(
    target: Path,
    published: Published,
    components: Iterable[Component],
    *,
    version: str,
    source: Source,
) -> None:
    """Write the SBOM of an image, named by the digest of what it describes."""
    document = document_of(published, components, version=version, source=source)
    if problems := validate_full_spdx_document(document):
        first = problems[0].validation_message
        raise CannotContinueError(f"The SBOM of {published.name} is not valid SPDX: {first}.")
    target.parent.mkdir(parents=True, exist_ok=True)
    write_document_to_file(document, str(target), validate=False)


def document_of(
    published: Published, components: Iterable[Component], *, version: str, source: Source
) -> Document:
    """The document: the image, and each package that it contains."""
    title = published.name.rpartition("/")[2]
    image = Package(
        _IMAGE,
        title,
        SpdxNoAssertion(),
        version=version,
        file_name=published.reference,
        files_analyzed=False,
        # What an image holds is under many licences; each package says its own.
        license_declared=SpdxNoAssertion(),
        primary_package_purpose=PackagePurpose.CONTAINER,
        external_references=[_purl(published.purl)],
    )
    packages = [_package(number, one) for number, one in enumerate(components, start=1)]
    return Document(
        CreationInfo(
            "SPDX-2.3",
            _DOCUMENT,
            f"{title}-{version}",
            f"{_NAMESPACE}/{title}/{published.digest.removeprefix('sha256:')}",
            [Actor(ActorType.TOOL, f"tandem-release-{version}")],
            datetime.fromtimestamp(source.epoch_s, UTC).replace(tzinfo=None),
        ),
        packages=[image, *packages],
        relationships=[
            Relationship(_DOCUMENT, RelationshipType.DESCRIBES, _IMAGE),
            *(Relationship(_IMAGE, RelationshipType.CONTAINS, one.spdx_id) for one in packages),
        ],
    )


def _package(number: int, component: Component) -> Package:
    return Package(
        f"SPDXRef-Package-{number}",
        component.name,
        SpdxNoAssertion(),
        version=component.version,
        files_analyzed=False,
        license_declared=_expression(component.license),
        external_references=[_purl(component.purl)],
    )


def _expression(text: str) -> object:
    """A licence, if a package names it as SPDX does; many write its name or its whole text."""
    if not text or len(text) > _LONGEST_EXPRESSION:
        return SpdxNoAssertion()
    try:
        return spdx_licensing.parse(text, validate=True)
    except ExpressionError:
        return SpdxNoAssertion()


def _purl(locator: str) -> ExternalPackageRef:
    return ExternalPackageRef(ExternalPackageRefCategory.PACKAGE_MANAGER, "purl", locator)
