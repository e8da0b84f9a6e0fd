"""`spec.model`: what is served, and where its weights are."""

from typing import Annotated, ClassVar

from pydantic import Field

from tandem_operator.api.rules import ApiModel, Rule
from tandem_operator.api.values import Count, DnsName, text_rule

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


class ModelSource(ApiModel):
    """Where the weights are. Exactly one of the three."""

    image: ImageSource | None = None
    """The weights are part of the engine image."""
    persistent_volume_claim: VolumeSource | None = None
    """The weights are on a volume."""
    hugging_face: HuggingFaceSource | None = None
    """The weights are downloaded from the Hugging Face Hub."""

    rules: ClassVar = (
        Rule(
            expression=(
                "[has(self.image), has(self.persistentVolumeClaim), has(self.huggingFace)]"
                ".filter(given, given).size() == 1"
            ),
            message=(
                "model.source needs exactly one of image, persistentVolumeClaim and huggingFace;"
                " write for example huggingFace: {repo: meta-llama/Llama-3.1-8B-Instruct}"
            ),
            holds=lambda source: (
                [source.image, source.persistent_volume_claim, source.hugging_face].count(None) == 2
            ),
        ),
    )


class CacheClaim(ApiModel):
    """A volume that all engine pods of the pool mount and write to."""

    claim_name: DnsName
    """PersistentVolumeClaim in the pool's namespace. Pods on several nodes need ReadWriteMany."""


class ModelCache(ApiModel):
    """What one engine pod downloaded or compiled, kept for the next one."""

    persistent_volume_claim: CacheClaim
    """The volume that holds it, mounted at /cache. Tandem deletes nothing from it."""


def _name_rule(field: str) -> Rule:
    return text_rule(
        pattern="^[A-Za-z0-9][A-Za-z0-9._:/-]*$",
        message=(
            f"{field} must be letters, digits, '.', '_', '-', ':' or '/';"
            " write for example llama-3.1-8b"
        ),
    )


class Model(ApiModel):
    """The model that the pool serves."""

    name: Annotated[str, Field(max_length=128), _name_rule("model.name")]
    """Name that clients put into the `model` field of their requests."""
    aliases: Annotated[
        tuple[Annotated[str, Field(max_length=128), _name_rule("model.aliases")], ...],
        Field(max_length=16),
    ] = ()
    """More names for the model. Clients may ask for any of them. Answers carry `name`, as the
    answers of vLLM do. An edit restarts nothing."""
    source: ModelSource
    """Where the weights are."""
    max_model_len: Annotated[Count, Field(ge=16, le=16_777_216)]
    """Longest request in tokens, prompt and output together. More costs KV cache memory."""
    cache: ModelCache | None = None
    """Cache that outlives a pod. Without it, each pod has its own and starts with an empty one."""

    rules: ClassVar = (
        Rule(
            expression=(
                "self.aliases.all(alias, alias != self.name"
                " && self.aliases.exists_one(other, other == alias))"
            ),
            message=(
                "model.aliases must hold each name once, and not model.name; write for example"
                " aliases: [llama]"
            ),
            holds=lambda model: len({model.name, *model.aliases}) == 1 + len(model.aliases),
            field=".aliases",
        ),
    )

    @property
    def names(self) -> tuple[str, ...]:
        """All names that clients may ask for; engines know the first."""
        return (self.name, *self.aliases)
