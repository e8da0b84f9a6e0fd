"""`spec.model`: the model of the pool, and the place of its weights."""

from typing import Annotated, ClassVar

from pydantic import Field

from tandem_operator.api.rules import ApiModel, OneForm, Rule
from tandem_operator.api.v1alpha1.model_source import ModelSource, in_typed_form
from tandem_operator.api.values import Count, DnsName, text_rule


class CacheClaim(ApiModel):
    """A volume that all engine pods of the pool mount and write to."""

    claim_name: DnsName
    """PersistentVolumeClaim in the pool's namespace. Pods on several nodes need ReadWriteMany."""


class CacheFolder(ApiModel):
    """A folder of each node, which the pods on that node mount and write to."""

    path: Annotated[
        str,
        Field(max_length=512),
        text_rule(
            pattern="^(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)+$",
            message="path must be absolute and plain; write for example /var/lib/tandem-cache",
        ),
    ]
    """Folder that user 65532 can write to. The installation must allow it."""


class ModelCache(ApiModel):
    """Cache of downloaded weights and compiled code that outlives an engine pod."""

    persistent_volume_claim: CacheClaim | None = None
    """A claim of your own, mounted at /cache. Tandem deletes nothing from it."""
    host_path: CacheFolder | None = None
    """A folder of each node. The namespace needs Pod Security level privileged."""
    size: (
        Annotated[
            str,
            Field(max_length=16),
            text_rule(
                pattern="^[1-9][0-9]*[MGTP]i?$",
                message="size must be a number with a unit; write for example 200Gi",
            ),
        ]
        | None
    ) = None
    """Size of a volume that Tandem makes and that is deleted with the pool, such as 200Gi."""
    storage_class_name: Annotated[str, Field(max_length=253)] | None = None
    """StorageClass of that volume. Without it: the cluster's default."""

    rules: ClassVar = (
        Rule(
            expression=(
                "[has(self.persistentVolumeClaim), has(self.hostPath), has(self.size)]"
                ".filter(given, given).size() == 1"
            ),
            message=(
                "model.cache needs exactly one of persistentVolumeClaim, hostPath and size;"
                " write for example size: 200Gi"
            ),
            holds=lambda cache: (
                [cache.persistent_volume_claim, cache.host_path, cache.size].count(None) == 2
            ),
        ),
        Rule(
            expression="has(self.size) || !has(self.storageClassName)",
            message=("storageClassName needs a size; write for example size: 200Gi"),
            holds=lambda cache: cache.size is not None or cache.storage_class_name is None,
        ),
    )


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
    """Model name that clients write into the `model` field of their requests."""
    aliases: Annotated[
        tuple[Annotated[str, Field(max_length=128), _name_rule("model.aliases")], ...],
        Field(max_length=16),
    ] = ()
    """Further names for the model, which clients can use too. Answers carry `name`, as the answers
    of vLLM do. An edit restarts nothing."""
    source: Annotated[ModelSource, OneForm(in_typed_form)]
    """Place of the weights."""
    max_model_len: Annotated[Count, Field(ge=16, le=16_777_216)]
    """Longest request in tokens, prompt and output together. A higher value costs KV cache
    memory."""
    cache: ModelCache | None = None
    """Cache that outlives a pod. Without it, each pod starts with an empty cache of its own."""

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
        """All names that clients can use; engines know only the first."""
        return (self.name, *self.aliases)
