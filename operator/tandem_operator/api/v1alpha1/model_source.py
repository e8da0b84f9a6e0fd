"""`spec.model.source`: the place of the weights, as one URI or in a typed form."""

from typing import Annotated, ClassVar

from pydantic import Field

from tandem_operator.api.rules import ApiModel, Rule
from tandem_operator.api.v1alpha1.named_object import NamedObject
from tandem_operator.api.values import DnsName, text_rule

ModelPath = Annotated[
    str,
    Field(max_length=512),
    text_rule(
        pattern=r"^/[^\s\x00-\x1f\x7f]*$",
        never="(^|/)[.][.](/|$)",
        message=(
            "path must be absolute, without spaces, line breaks and '..';"
            " write for example /models/llama"
        ),
    ),
]


class ImageSource(ApiModel):
    """Weights that are part of the engine image."""

    path: ModelPath
    """Directory inside the engine image, such as /models/tiny."""


class VolumeSource(ApiModel):
    """Weights on a volume, mounted read-only into every engine pod."""

    claim_name: DnsName
    """PersistentVolumeClaim in the pool's namespace; it must be mountable by several pods."""
    path: ModelPath = "/"
    """Directory inside the volume, such as /llama-3.1-8b."""


class SecretKey(ApiModel):
    """One key of a Secret in the pool's namespace."""

    name: DnsName
    """Name of the Secret."""
    key: Annotated[
        str,
        Field(max_length=253),
        text_rule(
            pattern="^[-._a-zA-Z0-9]+$",
            message="key must be a key of a Secret: letters, digits, '-', '_' or '.'; write token",
        ),
    ] = "token"
    """Key inside the Secret."""


class HuggingFaceSource(ApiModel):
    """Weights that each engine pod downloads from the Hugging Face Hub."""

    repo: Annotated[
        str,
        Field(max_length=200),
        text_rule(
            pattern="^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?$",
            never="[.][.]",
            message=(
                "repo must be a repository of the Hub, not a URL; write for example"
                " meta-llama/Llama-3.1-8B-Instruct"
            ),
        ),
    ]
    """Repository, such as meta-llama/Llama-3.1-8B-Instruct."""
    revision: Annotated[
        str,
        Field(max_length=128),
        text_rule(
            pattern="^[A-Za-z0-9][A-Za-z0-9._/-]*$",
            never="[.][.]|//|/$",
            message=(
                "revision must be a branch, a tag or a commit, without '..' and '//';"
                " write for example main"
            ),
        ),
    ] = "main"
    """Branch, tag or commit. A commit makes sure that all pods hold the same weights."""
    token_secret_ref: SecretKey | None = None
    """Access token for a gated or private repository."""


_NAME = "[A-Za-z0-9][A-Za-z0-9._-]*"
_URI = "|".join(
    (
        f"hf://{_NAME}(/{_NAME})?(@[A-Za-z0-9][A-Za-z0-9._/-]*)?",
        "(s3|gs)://[a-z0-9][a-z0-9._-]*(/[A-Za-z0-9._=+-]+)+/?",
        f"oci://{_NAME}(:[0-9]+)?(/[a-z0-9._-]+)+(:[A-Za-z0-9_.-]+)?(@sha256:[0-9a-f]+)?",
        "pvc://[a-z0-9]([-a-z0-9.]*[a-z0-9])?(/[!-~]*)?",
        "file:///[!-~]*",
    )
)
_STREAMED = ("s3://", "gs://")
_WITH_CREDENTIALS = ("hf://", *_STREAMED)


class ModelSource(ApiModel):
    """Place of the weights. Exactly one of image, persistentVolumeClaim, huggingFace and uri."""

    image: ImageSource | None = None
    """The weights are part of the engine image."""
    persistent_volume_claim: VolumeSource | None = None
    """The weights are on a volume."""
    hugging_face: HuggingFaceSource | None = None
    """The weights are downloaded from the Hugging Face Hub."""
    uri: (
        Annotated[
            str,
            Field(max_length=1024),
            text_rule(
                pattern=f"^({_URI})$",
                never="[.][.]|[^:/]//|////|@.*/$",
                message=(
                    "uri must be of hf://, s3://, gs://, oci://, pvc:// or file:///, without '..';"
                    " write for example hf://meta-llama/Llama-3.1-8B-Instruct"
                ),
            ),
        ]
        | None
    ) = None
    """The weights in one line: hf://ORG/REPO@REVISION, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX,
    oci://REGISTRY/IMAGE:TAG, pvc://CLAIM/PATH or file:///PATH (in the engine image)."""
    credentials_secret_ref: NamedObject | None = None
    """Secret with the keys for hf (token), gs (credentials.json) or s3 (AWS_ACCESS_KEY_ID,
    AWS_SECRET_ACCESS_KEY and, if needed, AWS_SESSION_TOKEN)."""

    rules: ClassVar = (
        Rule(
            expression=(
                "[has(self.image), has(self.persistentVolumeClaim), has(self.huggingFace),"
                " has(self.uri)].filter(given, given).size() == 1"
            ),
            message=(
                "model.source needs exactly one of image, persistentVolumeClaim, huggingFace and"
                " uri; write for example huggingFace: {repo: meta-llama/Llama-3.1-8B-Instruct}"
            ),
            holds=lambda source: (
                [
                    source.image,
                    source.persistent_volume_claim,
                    source.hugging_face,
                    source.uri,
                ].count(None)
                == 3
            ),
        ),
        Rule(
            expression=(
                "!has(self.credentialsSecretRef)"
                " || has(self.uri) && self.uri.matches('^(hf|s3|gs):')"
            ),
            message=(
                "credentialsSecretRef needs a uri of hf, s3 or gs; write for example"
                " uri: s3://models/llama"
            ),
            holds=lambda source: (
                source.credentials_secret_ref is None
                or (source.uri or "").startswith(_WITH_CREDENTIALS)
            ),
            field=".credentialsSecretRef",
        ),
    )

    @property
    def object_storage(self) -> str | None:
        """The URI of a bucket's folder, for vLLM's own loader."""
        uri = self.uri
        return uri.rstrip("/") if uri is not None and uri.startswith(_STREAMED) else None

    @property
    def oci_image(self) -> str | None:
        """The reference of an image that holds only the weights."""
        scheme, _, reference = (self.uri or "").partition("://")
        return reference if scheme == "oci" else None

    @property
    def is_remote(self) -> bool:
        """Whether engines fetch the weights over the network themselves."""
        return self.hugging_face is not None or self.object_storage is not None


def in_typed_form(source: ModelSource) -> ModelSource:
    """The typed form of a URI, so that both forms make the same pods.

    A URI without a typed form stays as it is.
    """
    scheme, _, rest = (source.uri or "").partition("://")
    # What the rule of the URI lets through suits the typed forms.
    match scheme:
        case "hf":
            repo, _, revision = rest.partition("@")
            credentials = source.credentials_secret_ref
            token = None if credentials is None else SecretKey(name=credentials.name)
            hub = HuggingFaceSource.model_construct(
                repo=repo, revision=revision or "main", token_secret_ref=token
            )
            typed: dict[str, ApiModel] = {"hugging_face": hub}
        case "pvc":
            claim, _, path = rest.partition("/")
            volume = VolumeSource.model_construct(claim_name=claim, path=f"/{path}")
            typed = {"persistent_volume_claim": volume}
        case "file":
            typed = {"image": ImageSource.model_construct(path=rest)}
        case _:
            return source
    return source.model_copy(update={"uri": None, **typed})
