"""Labels, ports, keys, variables and metric names that more than one part goes by."""

POOL_LABEL = "tandem-inference.io/pool"
"""On each child and pod: the name of its pool."""
ROLE_LABEL = "tandem-inference.io/role"
"""On pods and on what serves one component: `prefill`, `decode` or `router`."""
REVISION_LABEL = "tandem-inference.io/revision"
"""On engine pods: only pods of one revision may exchange KV blocks."""
KEY_ANNOTATION = "tandem-inference.io/engine-key"
"""On pods that have the pool's key: the name of its Secret."""

HTTP_PORT = 8000
"""Of an engine pod: vLLM. Of a router pod: clients and probes."""
CONTROL_PORT = 8001
"""Of an engine pod: the launcher."""
SIDE_CHANNEL_PORT = 5600
"""Of an engine pod: NIXL, between engines."""
ROUTER_INTERNAL_PORT = 9100
"""Of a router pod: the operator, Prometheus and other routers."""
ROUTER_SERVICE_PORT = 80
"""Of the Service in front of the routers."""

SETTINGS_KEY = "router.json"
"""Of ConfigMap `POOL-router`: the settings of the routers."""

KEY_ENV = "TANDEM_ENGINE_KEY"
"""In engine and router pods: what an engine's callers must show."""
REVISION_ENV = "TANDEM_REVISION"
"""In engine pods that an operator made: the revision."""
POD_IP_ENV = "POD_IP"
"""In engine pods: where other engines reach NIXL."""

LAUNCHER_FOLDER = "/opt/tandem"
"""In engine pods: the launcher, which `python3` runs from there."""
VLLM_IMAGE = "vllm/vllm-openai:v0.32.0"
"""Of vLLM itself, for GPUs: the version that the launcher is tested with."""
VLLM_ROCM_IMAGE = "vllm/vllm-openai-rocm:v0.32.0"
"""The same version for AMD's GPUs, on which nobody has tested the launcher."""

TTFT_METRIC = "tandem_router_ttft_seconds"
"""Of a router: a histogram, fixed log-spaced buckets, ratio about 1.15."""
TPOT_METRIC = "tandem_router_tpot_seconds"
"""Of a router: a histogram, fixed log-spaced buckets, ratio about 1.15."""
