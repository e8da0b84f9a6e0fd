"""The weights of an engine pod, and the cache that the next pod uses: volumes and variables.

A source given by URI already has its typed form here, if it has one.
"""

from tandem_operator.api import Model, ModelCache, ModelSource
from tandem_operator.workloads.labels import labels_of
from tandem_operator.workloads.pool_names import PoolName
from tandem_operator.workloads.world import Object

MODEL_MOUNT = "/mnt/model"
IMAGE_MOUNT = "/mnt/image"
CACHE_MOUNT = "/cache"
_CREDENTIALS_MOUNT = "/mnt/credentials"
_GOOGLE_KEY = "credentials.json"
_CREDENTIALS = "model-credentials"
_AWS_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_AWS_OPTIONAL_KEYS = ("AWS_SESSION_TOKEN",)


def location(source: ModelSource) -> str:
    """Return where the launcher finds the weights: a container path, a repository or a URI."""
    if source.image is not None:
        return source.image.path
    if source.persistent_volume_claim is not None:
        return (MODEL_MOUNT + source.persistent_volume_claim.path).rstrip("/")
    if source.hugging_face is not None:
        return source.hugging_face.repo
    if source.oci_image is not None:
        return IMAGE_MOUNT
    assert source.object_storage is not None, "exactly one source, by the API's own rule"  # noqa: S101
    return source.object_storage


def cache_options(model: Model) -> dict[str, object | None]:
    """Return the launcher's options for the cache."""
    cache = model.cache
    in_bucket = model.source.object_storage is not None
    return {
        # Engines without a common volume stream weights directly to their devices.
        "fetch-into": f"{CACHE_MOUNT}/models" if in_bucket and cache is not None else None,
        # Kubernetes gives a claim to the pods' group, but not a folder of a node.
        "required-cache": CACHE_MOUNT if cache is not None and cache.host_path else None,
    }


def environment(source: ModelSource) -> list[Object]:
    """Return the credentials, as the libraries that load weights for vLLM expect them."""
    hub = source.hugging_face
    if hub is not None:
        token = hub.token_secret_ref
        return [] if token is None else [_from_secret("HF_TOKEN", token.name, token.key)]
    credentials, uri = source.credentials_secret_ref, source.object_storage
    if credentials is None or uri is None:
        return []
    if uri.startswith("gs://"):
        path = f"{_CREDENTIALS_MOUNT}/{_GOOGLE_KEY}"
        return [{"name": "GOOGLE_APPLICATION_CREDENTIALS", "value": path}]
    return [
        *(_from_secret(key, credentials.name, key) for key in _AWS_KEYS),
        *(_from_secret(key, credentials.name, key, optional=True) for key in _AWS_OPTIONAL_KEYS),
    ]


def mounts(source: ModelSource) -> list[Object]:
    """Return mounts of the volumes with the weights and with a file of credentials."""
    paths = {"model": IMAGE_MOUNT if source.oci_image else MODEL_MOUNT}
    paths[_CREDENTIALS] = _CREDENTIALS_MOUNT
    return [
        {"name": volume["name"], "mountPath": paths[volume["name"]], "readOnly": True}
        for volume in _of_source(source)
    ]


def volumes(model: Model) -> list[Object]:
    """Return volumes that no pod template may change: it could name a folder of the node."""
    folder = None if model.cache is None else model.cache.host_path
    if folder is None:
        return _of_source(model.source)
    # If a node lacks it, the engine reports the remedy; the kubelet would only wait.
    of_node = {"path": folder.path, "type": "DirectoryOrCreate"}
    return [*_of_source(model.source), {"name": "cache", "hostPath": of_node}]


def _of_source(source: ModelSource) -> list[Object]:
    claim, credentials = source.persistent_volume_claim, source.credentials_secret_ref
    if claim is not None:
        of_claim = {"claimName": claim.claim_name, "readOnly": True}
        return [{"name": "model", "persistentVolumeClaim": of_claim}]
    if source.oci_image is not None:
        return [{"name": "model", "image": {"reference": source.oci_image}}]
    if credentials is not None and (source.object_storage or "").startswith("gs://"):
        key = {"key": _GOOGLE_KEY, "path": _GOOGLE_KEY}
        secret = {"secretName": credentials.name, "items": [key]}
        return [{"name": _CREDENTIALS, "secret": secret}]
    return []


def cache_volume(cache: ModelCache | None, *, name: PoolName) -> Object:
    """Return the default volume at /cache: the pod's own, or a claim that outlives it."""
    if cache is None or cache.host_path is not None:
        return {"name": "cache", "emptyDir": {}}
    given = cache.persistent_volume_claim
    claim = {"claimName": name.cache if given is None else given.claim_name}
    return {"name": "cache", "persistentVolumeClaim": claim}


def cache_claim(cache: ModelCache | None, *, name: PoolName) -> list[Object]:
    """Return the PersistentVolumeClaim of a cache for which the pool gives a size."""
    if cache is None or cache.size is None:
        return []
    head = name.head(
        api_version="v1",
        kind="PersistentVolumeClaim",
        child=name.cache,
        labels=labels_of(name),
    )
    spec: Object = {
        # Pods of the pool are on several nodes.
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": cache.size}},
    }
    if cache.storage_class_name is not None:
        spec["storageClassName"] = cache.storage_class_name
    return [head | {"spec": spec}]


def _from_secret(variable: str, secret: str, key: str, *, optional: bool = False) -> Object:
    reference: Object = {"name": secret, "key": key}
    if optional:
        reference["optional"] = True
    return {"name": variable, "valueFrom": {"secretKeyRef": reference}}
