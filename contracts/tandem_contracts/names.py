"""Labels, ports, keys, variables and metric names that more than one part uses."""

POOL_LABEL = "tandem-inference.io/pool"
"""On each child and pod: the name of its pool."""
ROLE_LABEL = "tandem-inference.io/role"
"""On pods and on objects of one component: `prefill`, `decode` or `router`."""
REVISION_LABEL = "tandem-inference.io/revision"
"""On engine pods: only pods of the same revision may exchange KV blocks."""
KEY_ANNOTATION = "tandem-inference.io/engine-key"
"""On pods that have the pool's key: the name of its Secret."""

HTTP_PORT = 8000
"""Port of vLLM in an engine pod, and of clients and probes in a router pod."""
CONTROL_PORT = 8001
"""Port of the launcher in an engine pod."""
SIDE_CHANNEL_PORT = 5600
"""Port of NIXL between engine pods."""
ROUTER_INTERNAL_PORT = 9100
"""Port of a router pod for the operator, Prometheus and other routers."""
ARRIVAL_PATH = "/arrival"
"""Path on the internal port. The answer is 200 once a request waits or arrives, else 204 after
`ARRIVAL_WAIT_S`."""
ARRIVAL_WAIT_S = 25.0
"""Longest time until a router answers `ARRIVAL_PATH`."""
ROUTER_SERVICE_PORT = 80
"""Port of the Service in front of the routers."""

SETTINGS_KEY = "router.json"
"""Key of ConfigMap `POOL-router` with the settings of the routers."""

KEY_ENV = "TANDEM_ENGINE_KEY"
"""In engine and router pods: the key that callers of an engine must send."""
REVISION_ENV = "TANDEM_REVISION"
"""In engine pods of an operator: their revision."""
POD_IP_ENV = "POD_IP"
"""In engine pods: the address where other engines reach NIXL."""

LAUNCHER_FOLDER = "/opt/tandem"
"""In engine pods: the folder of the launcher, which `python3` runs."""
VLLM_IMAGE = "vllm/vllm-openai:v0.32.0"
"""vLLM's own image for GPUs, in the version that the launcher is tested with."""
VLLM_ROCM_IMAGE = "vllm/vllm-openai-rocm:v0.32.0"
"""The same version for GPUs of AMD; the launcher was never tested on them."""

TTFT_METRIC = "tandem_router_ttft_seconds"
"""Histogram of a router: fixed log-spaced buckets, ratio about 1.15."""
TPOT_METRIC = "tandem_router_tpot_seconds"
"""Histogram of a router: fixed log-spaced buckets, ratio about 1.15."""
