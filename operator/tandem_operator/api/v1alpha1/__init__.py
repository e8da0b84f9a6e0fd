"""Version v1alpha1 of the API: the models behind the kinds of `tandem-inference.io`."""

GROUP = "tandem-inference.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "InferencePool"
PLURAL = "inferencepools"
ROLE_KIND = "PoolRole"
ROLE_PLURAL = "poolroles"
