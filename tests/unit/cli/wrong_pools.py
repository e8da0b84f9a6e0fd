"""Manifests that are wrong, each by one edit of a good one; `wrong_pools.txt` has the answers."""

from collections.abc import Iterator

GOOD = """\
apiVersion: tandem-inference.io/v1alpha1
kind: InferencePool
metadata:
  name: chat
  namespace: team
  labels: {team: search}
spec:
  model:
    name: llama
    maxModelLen: 32768
    source:
      huggingFace: {repo: meta-llama/Llama-3.1-8B-Instruct}
  slo:
    ttft: {target: 300ms}
    tpot: {target: 20ms}
    attainment: 95%
  engine:
    device: NVIDIA
    extraArgs:
      - --seed=1
      - --max-num-batched-tokens=8192
  prefill:
    maxReplicas: 4
    resources:
      limits: {memory: 64Gi}
    podTemplate:
      metadata:
        labels: {tier: gpu}
      spec:
        nodeSelector: {zone: a}
        tolerations:
          - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
        containers:
          - name: engine
            env:
              - {name: UCX_LOG_LEVEL, value: "info"}
  decode:
    minReplicas: 1
    maxReplicas: 3
    gpusPerReplica: 1
  router:
    timeouts: {firstToken: 120s}
  scaling:
    mode: Auto
    gpuBudget: 6
  metrics:
    prometheus: {url: "http://prometheus.monitoring.svc:9090"}
"""

DECODE = "    gpusPerReplica: 1\n"
# By name: the replaced text, and its replacement.
WRONG: dict[str, tuple[str, str]] = {
    "another version": ("/v1alpha1", "/v1"),
    "a typo in the group": ("tandem-inference.io/", "tandem-inferense.io/"),
    "no API version": ("apiVersion: tandem-inference.io/v1alpha1\n", ""),
    "a typo in the kind": ("kind: InferencePool", "kind: Inferencepool"),
    "a typo in the metadata": ("labels: {team", "lables: {team"),
    "a label that is no text": ("{team: search}", "{team: 7}"),
    "a name with capitals": ("name: chat", "name: Chat"),
    "a long name": ("name: chat", f"name: {'a' * 41}"),
    "a typo in a field": ("maxReplicas: 4", "maxReplica: 4"),
    "a field on the wrong level": (
        "  scaling:\n    mode: Auto\n    gpuBudget: 6\n",
        "  gpuBudget: 6\n",
    ),
    "a required field left out": ("    maxModelLen: 32768\n", ""),
    "a required field left empty": ("maxModelLen: 32768", "maxModelLen:"),
    "a field given twice": ("    mode: Auto\n", "    mode: Auto\n    mode: Paused\n"),
    "a number as text": ("maxReplicas: 4", 'maxReplicas: "4"'),
    "a number out of bounds": ("maxReplicas: 4", "maxReplicas: 4000"),
    "a value of no enum": ("mode: Auto", "mode: auto"),
    "a duration without a unit": ("target: 300ms", 'target: "300"'),
    "a percentage of all": ("attainment: 95%", "attainment: 100%"),
    "a quantity of words": ("memory: 64Gi", "memory: lots"),
    "a text in place of a list": (
        "    extraArgs:\n      - --seed=1\n      - --max-num-batched-tokens=8192\n",
        "    extraArgs: --seed=1\n",
    ),
    "fewer at most than at least": ("minReplicas: 1", "minReplicas: 5"),
    "a budget below the minimum": ("gpuBudget: 6", "gpuBudget: 1"),
    "two classes of one name": (
        "    attainment: 95%\n",
        "    attainment: 95%\n    classes:\n      - name: batch\n      - name: batch\n",
    ),
    "GPUs on CPU": ("device: NVIDIA", "device: CPU"),
    "a name twice": ("    name: llama\n", "    name: llama\n    aliases: [llama]\n"),
    "an alias with a space": ("    name: llama\n", "    name: llama\n    aliases: [my llama]\n"),
    "a resource of another vendor": (
        "device: NVIDIA",
        "device: NVIDIA\n    accelerator: {resource: amd.com/gpu}",
    ),
    "a resource of a vendor without engines": (
        "device: NVIDIA",
        "device: NVIDIA\n    accelerator: {resource: gpu.intel.com/xe}",
    ),
    "a claim of unknown size": (
        "device: NVIDIA",
        "device: NVIDIA\n    accelerator: {resourceClaimTemplateName: one-gpu}",
    ),
    "an accelerator on CPU": (
        "device: NVIDIA",
        "device: CPU\n    accelerator: {resource: nvidia.com/gpu}",
    ),
    "an accelerator without a resource": ("device: NVIDIA", "device: NVIDIA\n    accelerator: {}"),
    "two sources": ("    source:\n", "    source:\n      image: {path: /models/llama}\n"),
    "no time for the first token": ("firstToken: 120s", "firstToken: 20m"),
    "an option that Tandem sets": ("--seed=1", "--port=80"),
    "an option that loads code": ("--seed=1", "--middleware=os.abort"),
    "an option of no vLLM": ("--seed=1", "--sead=1"),
    "several engines in a pod": ("--seed=1", "--data-parallel-size=2"),
    "more GPUs than Tandem counts": ("--seed=1", "-pp=2"),
    "LoRA adapters": ("--seed=1", "--enable-lora"),
    "another transfer of KV blocks": ("--seed=1", "--kv-offloading-size=40"),
    "a value of one role that both must share": (
        DECODE,
        f"{DECODE}    engine: {{dtype: float16}}\n",
    ),
    "a block size of one role": (DECODE, f"{DECODE}    engine: {{blockSize: 32}}\n"),
    "a role's method of no vLLM": (DECODE, f"{DECODE}    engine: {{quantization: FP8}}\n"),
    "a role's option that both must share": (
        DECODE,
        f"{DECODE}    engine: {{extraArgs: [--kv-cache-dtype=fp8]}}\n",
    ),
    "a role's option that Tandem sets": (
        DECODE,
        f"{DECODE}    engine: {{extraArgs: [--port=1]}}\n",
    ),
    "a role's option that loads code": (
        DECODE,
        f"{DECODE}    engine: {{extraArgs: [--trust-remote-code]}}\n",
    ),
    "a role without sequences": (DECODE, f"{DECODE}    engine: {{maxNumSeqs: 0}}\n"),
    "a role's KV cache of words": (DECODE, f"{DECODE}    engine: {{kvCacheMemory: much}}\n"),
    "a role's image with a space": (DECODE, f"{DECODE}    engine: {{image: my image}}\n"),
    "a URI that is a web page": (
        "huggingFace: {repo: meta-llama/Llama-3.1-8B-Instruct}",
        "uri: https://huggingface.co/meta-llama/Llama-3.1-8B-Instruct",
    ),
    "credentials for a volume": (
        "huggingFace: {repo: meta-llama/Llama-3.1-8B-Instruct}",
        "{uri: pvc://weights/llama, credentialsSecretRef: {name: keys}}",
    ),
    "memory for no pod": ("memory: 64Gi", "memory: 1Mi"),
    "the metadata server as Prometheus": ("prometheus.monitoring.svc:9090", "169.254.169.254"),
    "a typo in a pod template": ("nodeSelector:", "nodeSelectr:"),
    "a singular in a pod template": ("containers:", "container:"),
    "a typo deep in a pod template": ("effect: NoSchedule", "effects: NoSchedule"),
    "a typo in the template's metadata": ("        labels: {tier", "        label: {tier"),
    "a pod's field in a container": (
        "- name: engine\n",
        "- name: engine\n            hostPID: x\n",
    ),
    "a variable that is no text": ('value: "info"', "value: 7"),
    "a node selector that is no text": ("{zone: a}", "{zone: true}"),
    "a container without an image": ("- name: engine", "- name: vllm"),
    "the node's network": ("nodeSelector: {zone: a}", "hostNetwork: true"),
    "a short grace period": ("nodeSelector: {zone: a}", "terminationGracePeriodSeconds: 5"),
    "a field that Tandem sets": ("nodeSelector: {zone: a}", "restartPolicy: Never"),
    "a Secret": ('value: "info"', "valueFrom: {secretKeyRef: {name: a, key: b}}"),
}


def manifests() -> Iterator[tuple[str, str]]:
    """Yield the wrong manifests by name."""
    for name, (before, after) in WRONG.items():
        assert before in GOOD, name
        yield name, GOOD.replace(before, after, 1)
