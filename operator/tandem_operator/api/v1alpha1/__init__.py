"""Version v1alpha1 of the API: the models behind `inferencepools.tandem-inference.io`."""

GROUP = "tandem-inference.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "InferencePool"
PLURAL = "inferencepools"
