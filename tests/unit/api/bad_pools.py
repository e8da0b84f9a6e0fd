"""Manifests that must be refused, as merge patches on a good one; by the API server and offline."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

GOOD: Mapping[str, Any] = {
    "apiVersion": "tandem-inference.io/v1alpha1",
    "kind": "InferencePool",
    "metadata": {"name": "good"},
    "spec": {
        "model": {
            "name": "tiny",
            "maxModelLen": 2048,
            "source": {"image": {"path": "/models/tiny"}},
        },
        "slo": {"ttft": {"target": "500ms"}, "tpot": {"target": "50ms"}},
        "engine": {"device": "NVIDIA"},
        "prefill": {"maxReplicas": 3},
        "decode": {"maxReplicas": 3},
    },
}
OFFICE: Mapping[str, Any] = {
    "name": "office",
    "start": "0 8 * * 1-5",
    "duration": "10h",
    "prefill": {"minReplicas": 2},
}


@dataclass(frozen=True, slots=True)
class Bad:
    """One bad manifest.

    Attributes:
        field: path that the refusal has to name.
        works: a value that the sentence has to offer, for rules that are ours; `None` for those of
            the platform, which words them itself.
    """

    name: str
    patch: Mapping[str, Any]
    field: str
    works: str | None = None

    def manifest(self) -> dict[str, Any]:
        """Return the whole object."""
        return merged(GOOD, self.patch)


def merged(value: Any, patch: Any) -> Any:
    """Return the JSON merge patch (RFC 7396) of two values."""
    if not isinstance(patch, Mapping):
        return copy.deepcopy(patch)
    result = dict(value) if isinstance(value, Mapping) else {}
    for key, change in patch.items():
        if change is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), change)
    return result


def _spec(name: str, field: str, works: str | None = None, **patch: Any) -> Bad:
    return Bad(name, {"spec": patch}, f"spec.{field}", works)


def _ttft(name: str, target: Any) -> Bad:
    return _spec(name, "slo.ttft.target", "500ms", slo={"ttft": {"target": target}})


def _attainment(name: str, value: Any) -> Bad:
    return _spec(name, "slo.attainment", "99%", slo={"attainment": value})


def _source(name: str, works: str, **patch: Any) -> Bad:
    return _spec(name, "model.source", works, model={"source": {"image": None, **patch}})


def _hub(name: str, works: str, **patch: Any) -> Bad:
    return _source(name, works, huggingFace={"repo": "acme/llama", **patch})


def _uri(name: str, uri: str) -> Bad:
    source = {"source": {"image": None, "uri": uri}}
    return _spec(f"URI {name}", "model.source.uri", "hf://meta-llama/", model=source)


def _argument(argument: str) -> Bad:
    return _spec(
        f"extra argument {argument}",
        "engine.extraArgs[1]",
        "--max-num-batched-tokens=4096",
        engine={"extraArgs": ["--seed=1", argument]},
    )


def _role(name: str, field: str, works: str | None = None, **engine: Any) -> Bad:
    return _spec(f"{name} of a role", f"prefill.engine.{field}", works, prefill={"engine": engine})


def _accelerator(name: str, works: str | None, resource: Any, **more: Any) -> Bad:
    engine = {"accelerator": {"resource": resource}}
    field = "engine.accelerator.resource"
    return _spec(f"accelerator {name}", field, works, engine=engine, **more)


def _claim(name: str, works: str, given: Mapping[str, Any] | None = None, **more: Any) -> Bad:
    accelerator = {"resourceClaimTemplateName": "one-gpu", **(given or {})}
    fleets = {role: {"gpusPerReplica": 1} for role in ("prefill", "decode")} | {
        role: {} for role in more
    }
    field = "engine.accelerator" if given else ""
    return _spec(f"claim {name}", field, works, engine={"accelerator": accelerator}, **fleets)


def _prometheus(name: str, url: str) -> Bad:
    return _spec(
        f"Prometheus {name}",
        "metrics.prometheus.url",
        "http://prometheus.monitoring.svc:9090",
        metrics={"prometheus": {"url": url}},
    )


BAD_POOLS = (
    _spec(
        "fewer routers at most than at least",
        "router.maxReplicas",
        "minReplicas: 2 and maxReplicas: 8",
        router={"minReplicas": 3, "maxReplicas": 2},
    ),
    _spec(
        "topology key with a space",
        "placement.topologySpread[0].topologyKey",
        "kubernetes.io/hostname",
        placement={"topologySpread": [{"topologyKey": "node name"}]},
    ),
    _spec(
        "priority class with a capital",
        "placement.priorityClassName",
        placement={"priorityClassName": "Gold"},
    ),
    _ttft("negative TTFT", "-500ms"),
    _ttft("TTFT of zero", "0s"),
    _ttft("TTFT without a unit", "500"),
    _ttft("TTFT of a day", "24h"),
    _ttft("TTFT of nothing", ""),
    _ttft("TTFT in Arabic digits", "\u0665\u0660\u0660ms"),
    _ttft("TTFT with a space", "500 ms"),
    _spec("TTFT as a number", "slo.ttft.target", slo={"ttft": {"target": 500}}),
    _spec("TTFT of 100 characters", "slo.ttft.target", slo={"ttft": {"target": "5" * 98 + "ms"}}),
    _spec(
        "class in capitals",
        "slo.classes[0].name",
        "batch",
        slo={"classes": [{"name": "Batch"}]},
    ),
    _spec("no class", "slo.classes", slo={"classes": []}),
    _spec(
        "class of the name of another",
        "slo.classes[1]",
        slo={"classes": [{"name": "batch"}, {"name": "batch"}]},
    ),
    _spec(
        "service of a class",
        "slo.classes[0].service",
        slo={"classes": [{"name": "batch", "service": "Cheap"}]},
    ),
    _spec(
        "class of another model",
        "slo.classes",
        "model.aliases",
        slo={"classes": [{"name": "batch", "models": ["other"]}]},
    ),
    _spec(
        "key of a class in the clear",
        "slo.classes[0].keys[0]",
        "sha256:",
        slo={"classes": [{"name": "batch", "keys": ["secret"]}]},
    ),
    _spec(
        "attainment of a class",
        "slo.classes[0].attainment",
        "99%",
        slo={"classes": [{"name": "batch", "attainment": "100%"}]},
    ),
    _spec(
        "best effort that is refused when it is late",
        "slo.classes[0]",
        "write whenLate: Serve",
        slo={"classes": [{"name": "batch", "service": "BestEffort", "whenLate": "Refuse"}]},
    ),
    _spec(
        "tenant without a name",
        "router.tenants.named[0].name",
        router={"tenants": {"named": [{"weight": 2}]}},
    ),
    _spec(
        "tenant with a colon",
        "router.tenants.named[0].name",
        "team-search",
        router={"tenants": {"named": [{"name": "a:b"}]}},
    ),
    _spec(
        "tenant with the name of all others",
        "router.tenants.named[0].name",
        "team-search",
        router={"tenants": {"named": [{"name": "other"}]}},
    ),
    _spec(
        "tenant of the name of another",
        "router.tenants.named[2]",
        router={"tenants": {"named": [{"name": "a"}, {"name": "b"}, {"name": "a"}]}},
    ),
    _spec(
        "weight of no tenant",
        "router.tenants.named[0].weight",
        router={"tenants": {"named": [{"name": "a", "weight": 0}]}},
    ),
    _spec(
        "key of a tenant in the clear",
        "router.tenants.named[0].keys[0]",
        "sha256:",
        router={"tenants": {"named": [{"name": "a", "keys": ["secret"]}]}},
    ),
    _spec(
        "header of tenants with a colon",
        "router.tenants.header",
        "X-Tenant-Id",
        router={"tenants": {"header": "X-Tenant:"}},
    ),
    _spec(
        "no tokens a minute",
        "router.tenants.tokensPerMinute",
        router={"tenants": {"tokensPerMinute": 0}},
    ),
    _spec("TPOT fast", "slo.tpot.target", "50ms", slo={"tpot": {"target": "fast"}}),
    _spec("TPOT without target", "slo.tpot.target", slo={"tpot": {"target": None}}),
    _spec(
        "negative slope",
        "slo.ttft.perThousandPromptTokens",
        "100ms",
        slo={"ttft": {"perThousandPromptTokens": "-1ms"}},
    ),
    _attainment("attainment above one", "101%"),
    _attainment("attainment of all", "100%"),
    _attainment("attainment of none", "0%"),
    _attainment("attainment as a share", "0.99"),
    _attainment("attainment in words", "most"),
    _spec("empty SLO", "slo", "preset: Chat", slo={"ttft": None, "tpot": None}),
    _spec("TTFT alone", "slo", "preset: Chat", slo={"tpot": None}),
    _spec("unknown preset", "slo.preset", slo={"preset": "Fastest"}),
    _spec("no SLO", "slo", slo=None),
    _spec(
        "max below min",
        "prefill.maxReplicas",
        "maxReplicas: 4",
        prefill={"minReplicas": 5, "maxReplicas": 2},
    ),
    _spec("prefill at zero", "prefill.minReplicas", "write 1", prefill={"minReplicas": 0}),
    _spec("decode at zero", "decode.minReplicas", "write 1", decode={"minReplicas": 0}),
    _spec(
        "to zero in seconds",
        "scaling.scaleToZeroAfter",
        "write for example 10m",
        scaling={"scaleToZeroAfter": "30s"},
    ),
    _spec(
        "to zero beside another owner",
        "scaling.scaleToZeroAfter",
        "management: Managed",
        scaling={"scaleToZeroAfter": "10m"},
        decode={"management": "External"},
    ),
    _spec(
        "schedule of six fields",
        "scaling.schedules",
        "write for example 0 8 * * 1-5",
        scaling={"schedules": [{**OFFICE, "start": "0 0 8 * * 1-5"}]},
    ),
    _spec(
        "schedule without end",
        "scaling.schedules",
        "write for example 10h",
        scaling={"schedules": [{**OFFICE, "duration": "0s"}]},
    ),
    _spec(
        "schedule that holds nothing",
        "scaling.schedules",
        "write for example prefill: {minReplicas: 2}",
        scaling={"schedules": [{k: v for k, v in OFFICE.items() if k != "prefill"}]},
    ),
    _spec(
        "schedule of the name of another",
        "scaling.schedules[1]",
        scaling={"schedules": [OFFICE, {**OFFICE, "start": "0 9 * * 6"}]},
    ),
    _spec(
        "schedule at zero",
        "scaling.schedules",
        scaling={"schedules": [{**OFFICE, "prefill": {"minReplicas": 0}}]},
    ),
    _spec(
        "schedule above the most",
        "scaling.schedules",
        "up to maxReplicas of a Managed role",
        scaling={"schedules": [{**OFFICE, "prefill": {"minReplicas": 999}}]},
    ),
    _spec(
        "schedule beside another owner",
        "scaling.schedules",
        "leave the role out",
        scaling={"schedules": [OFFICE]},
        prefill={"management": "External"},
    ),
    _spec(
        "schedule above the budget",
        "scaling.gpuBudget",
        "write at least that sum",
        scaling={"gpuBudget": 2, "schedules": [OFFICE]},
    ),
    _spec("max of zero", "decode.maxReplicas", "example 4", decode={"maxReplicas": 0}),
    _spec("replicas as text", "decode.minReplicas", decode={"minReplicas": "two"}),
    _spec("a million replicas", "decode.maxReplicas", decode={"maxReplicas": 1_000_000}),
    _spec("no decode", "decode", decode=None),
    _spec("unknown field", "foo", foo=1),
    _spec("misspelt field", "prefill.minReplica", prefill={"minReplica": 2}),
    _spec("snake case", "prefill.min_replicas", prefill={"min_replicas": 2}),
    _spec("unknown management", "prefill.management", prefill={"management": "Auto"}),
    _spec(
        "budget below the minimum",
        "scaling.gpuBudget",
        "at least",
        prefill={"minReplicas": 2, "gpusPerReplica": 2},
        scaling={"gpuBudget": 4},
    ),
    _spec(
        "GPUs on CPU", "", "leave it out", engine={"device": "CPU"}, decode={"gpusPerReplica": 2}
    ),
    _accelerator("without a domain", "write nvidia.com/gpu", "gpu"),
    _accelerator("of a vendor without engines", "write nvidia.com/gpu", "gpu.intel.com/xe"),
    _accelerator("of another vendor than the device", "amd.com/gpu with device", "amd.com/gpu"),
    _spec(
        "accelerator of NVIDIA on AMD",
        "engine.accelerator.resource",
        "amd.com/gpu with device: AMD",
        engine={"device": "AMD", "accelerator": {"resource": "nvidia.com/gpu"}},
    ),
    _accelerator("with a space", "write nvidia.com/gpu", "nvidia.com/mig 1g"),
    _accelerator("without a name", "write nvidia.com/gpu", "nvidia.com/"),
    _accelerator("as a number", None, 1),
    _accelerator(
        "of slices that cannot join",
        "gpusPerReplica: 1",
        "nvidia.com/mig-1g.10gb",
        prefill={"gpusPerReplica": 2},
        decode={"gpusPerReplica": 2},
    ),
    _accelerator(
        "of shared GPUs that cannot join",
        "gpusPerReplica: 1",
        "nvidia.com/gpu.shared",
        decode={"gpusPerReplica": 2},
    ),
    _spec("empty accelerator", "engine.accelerator", "nvidia.com/gpu", engine={"accelerator": {}}),
    _claim("beside a resource", "write resource", {"resource": "nvidia.com/gpu"}),
    _claim("without GPUs of decode", "gpusPerReplica: 1", decode=None),
    _claim("without GPUs of prefill", "gpusPerReplica: 1", prefill=None),
    _spec(
        "accelerator on CPU",
        "engine.accelerator",
        "leave it out",
        engine={"device": "CPU", "accelerator": {"resource": "nvidia.com/gpu"}},
    ),
    _spec("no GPU", "decode.gpusPerReplica", decode={"gpusPerReplica": 0}),
    _spec("empty image", "engine.image", "ghcr.io/acme/engine:1.2", engine={"image": ""}),
    _spec("image with a space", "router.image", "ghcr.io", router={"image": "my image"}),
    _spec("unknown device", "engine.device", engine={"device": "TPU"}),
    _spec("odd block size", "engine.blockSize", "write 16", engine={"blockSize": 17}),
    _spec("no sequences", "engine.maxNumSeqs", engine={"maxNumSeqs": 0}),
    _spec("KV cache of words", "engine.kvCacheMemory", "64Mi", engine={"kvCacheMemory": "much"}),
    _spec("KV cache below zero", "engine.kvCacheMemory", "64Mi", engine={"kvCacheMemory": -1}),
    _argument("--port=80"),
    _argument("--kv_transfer_config={}"),
    _argument("--kv-transfer-config.kv_role=kv_both"),
    _argument("--seed 7"),
    _argument("--seed=1 --port=9000"),
    _argument("4096"),
    _argument("--"),
    _argument("--seed=1\n--port=9000"),
    _role("block size of the other role", "blockSize", blockSize=32),
    _role("no sequences", "maxNumSeqs", maxNumSeqs=0),
    _role("KV cache of words", "kvCacheMemory", "64Mi", kvCacheMemory="much"),
    _role("method in capitals", "quantization", "example fp8", quantization="FP8"),
    _role("image with a space", "image", "ghcr.io", image="my image"),
    _role("flag as text", "prefixCaching", prefixCaching="yes"),
    _role("port", "extraArgs[0]", "--max-num-batched-tokens=4096", extraArgs=["--port=80"]),
    _role("format of the other role", "dtype", dtype="float16"),
    _role("device of the other role", "device", device="CPU"),
    _spec(
        "GPUs that do not divide",
        "decode.gpusPerReplica",
        "the same number for both",
        prefill={"gpusPerReplica": 2},
        decode={"gpusPerReplica": 3},
    ),
    _spec("flag as text", "engine.prefixCaching", engine={"prefixCaching": "yes"}),
    _spec(
        "CPU of words",
        "prefill.resources.limits",
        "500m",
        prefill={"resources": {"limits": {"cpu": "lots"}}},
    ),
    _spec("emoji model", "model.name", "llama-3.1-8b", model={"name": "🦙"}),
    _spec("empty model", "model.name", "llama-3.1-8b", model={"name": ""}),
    _spec("an alias with a space", "model.aliases[0]", "llama-3.1-8b", model={"aliases": ["a b"]}),
    _spec("an empty alias", "model.aliases[0]", "llama-3.1-8b", model={"aliases": [""]}),
    _spec("the name as its own alias", "model.aliases", "[llama]", model={"aliases": ["tiny"]}),
    _spec("an alias twice", "model.aliases", "[llama]", model={"aliases": ["a", "a"]}),
    _spec("too many aliases", "model.aliases", model={"aliases": [f"a{n}" for n in range(17)]}),
    _spec("aliases as text", "model.aliases", model={"aliases": "llama"}),
    _spec("no length", "model.maxModelLen", model={"maxModelLen": None}),
    _spec("length of one", "model.maxModelLen", model={"maxModelLen": 1}),
    _source("no source", "huggingFace: {repo:"),
    _spec(
        "two sources",
        "model.source",
        "huggingFace: {repo:",
        model={"source": {"huggingFace": {"repo": "acme/llama"}}},
    ),
    _spec(
        "a URI beside a source",
        "model.source",
        "huggingFace: {repo:",
        model={"source": {"uri": "hf://acme/llama"}},
    ),
    *(
        _uri(name, uri)
        for name, uri in (
            ("of the web", "https://huggingface.co/acme/llama"),
            ("without a scheme", "acme/llama"),
            ("of nothing", "hf://"),
            ("with an empty revision", "hf://acme/llama@"),
            ("with a revision that climbs", "hf://acme/llama@a/../b"),
            ("with a revision that ends in a slash", "hf://acme/llama@a/"),
            ("of a whole bucket", "s3://models"),
            ("of a bucket in capitals", "s3://Models/llama"),
            ("with a query", "s3://models/llama?versionId=1"),
            ("with an empty folder", "gs://models//llama"),
            ("of an image without a registry", "oci://llama"),
            ("of an image by a cut digest", "oci://ghcr.io/acme/llama@sha256:"),
            ("of a claim in capitals", "pvc://Weights/llama"),
            ("of a claim that climbs", "pvc://weights/../other"),
            ("of a relative path", "file://models/llama"),
            ("of a path with a space", "file:///models/my llama"),
            ("with a line break", "hf://acme/llama\n"),
        )
    ),
    _spec(
        "credentials for a claim",
        "model.source.credentialsSecretRef",
        "uri: s3://models/llama",
        model={
            "source": {
                "image": None,
                "uri": "pvc://weights/llama",
                "credentialsSecretRef": {"name": "keys"},
            }
        },
    ),
    _source("relative path", "/models/llama", image={"path": "models/tiny"}),
    _source("path that climbs", "/models/llama", image={"path": "/models/../etc"}),
    _source("path with a line break", "/models/llama", image={"path": "/models/tiny\n"}),
    _source("upper-case claim", "weights-1", persistentVolumeClaim={"claimName": "Weights"}),
    _hub("repository as a URL", "meta-llama/", repo="https://huggingface.co/acme/llama"),
    _hub("empty revision", "write for example main", revision=""),
    _hub("revision with a line break", "write for example main", revision="main\n"),
    _hub("revision that climbs", "write for example main", revision="main/../../etc"),
    _hub("revision of two dots", "write for example main", revision="a..b"),
    _hub("repository that climbs", "meta-llama/", repo="acme/l..lama"),
    _hub("repository with a line break", "meta-llama/", repo="acme/llama\n"),
    _hub("secret with spaces", "weights-1", tokenSecretRef={"name": "my secret"}),
    _spec("unknown mode", "scaling.mode", scaling={"mode": "Off"}),
    _spec("stabilization", "scaling.stabilization", "60s", scaling={"stabilization": "5 minutes"}),
    _spec("budget of zero", "scaling.gpuBudget", scaling={"gpuBudget": 0}),
    _spec("priority in words", "scaling.priority", scaling={"priority": "high"}),
    _spec("priority out of range", "scaling.priority", scaling={"priority": 1001}),
    _spec("step of zero", "scaling.maxStep", scaling={"maxStep": 0}),
    _prometheus("without a scheme", "prometheus:9090"),
    _prometheus("with a port that none has", "http://prometheus:65536"),
    _prometheus("with port 0", "http://prometheus:0"),
    _prometheus("with a line break", "http://prometheus:9090\n"),
    _prometheus("with a header in it", "http://prometheus:9090/\r\nHost: other"),
    _prometheus("that climbs", "http://prometheus:9090/a/../admin"),
    _prometheus("with a query", "http://prometheus:9090/?query=up"),
    _prometheus("with a fragment", "http://prometheus:9090/#x"),
    _prometheus("with a password", "http://me:secret@prometheus:9090"),
    _prometheus("with a hidden slash", "http://prometheus:9090/%2e%2e/admin"),
    _prometheus("of another scheme", "file:///etc/passwd"),
    _spec(
        "first token after the end",
        "router.timeouts.firstToken",
        "firstToken: 120s",
        router={"timeouts": {"firstToken": "20m"}},
    ),
    _spec("no connection", "router.timeouts.connect", "1s", router={"timeouts": {"connect": "0s"}}),
    _spec("no choice at all", "router.limits.choices", router={"limits": {"choices": 0}}),
    _spec("few values", "router.limits.bodyElements", router={"limits": {"bodyElements": 1}}),
    _spec(
        "a header of two words",
        "router.cacheSaltHeader",
        "X-Tenant-Id",
        router={"cacheSaltHeader": "X Tenant"},
    ),
    _spec(
        "no Gateway",
        "router.gateway.parentRefs",
        router={"gateway": {"parentRefs": []}},
    ),
    _spec(
        "less room for all bodies than for one",
        "router.limits.inFlightBodyBytes",
        "bodyBytes",
        router={"limits": {"bodyBytes": 8_388_608, "inFlightBodyBytes": 4_194_304}},
    ),
    _spec("no time for heads", "router.timeouts.head", "10s", router={"timeouts": {"head": "0s"}}),
    _spec("a cache of nothing", "model.cache", "size: 200Gi", model={"cache": {}}),
    _spec(
        "a cache in two places",
        "model.cache",
        "size: 200Gi",
        model={"cache": {"size": "1Gi", "hostPath": {"path": "/var/cache"}}},
    ),
    _spec("a cache of no size", "model.cache.size", "200Gi", model={"cache": {"size": "0Gi"}}),
    _spec(
        "a class for a folder",
        "model.cache",
        "size: 200Gi",
        model={"cache": {"hostPath": {"path": "/var/cache"}, "storageClassName": "fast"}},
    ),
    _spec(
        "a cache in a folder that climbs",
        "model.cache.hostPath.path",
        "/var/lib/tandem-cache",
        model={"cache": {"hostPath": {"path": "/var/cache/../lib"}}},
    ),
    _spec(
        "a cache in a folder",
        "model.cache.persistentVolumeClaim.claimName",
        "weights-1",
        model={"cache": {"persistentVolumeClaim": {"claimName": "/srv/cache"}}},
    ),
    _spec(
        "a collector without a scheme",
        "router.tracing.endpoint",
        "http://otel-collector.observability.svc:4318",
        router={"tracing": {"endpoint": "otel-collector:4317"}},
    ),
    _spec(
        "a share of requests above all",
        "router.tracing.sampling",
        "5%",
        router={"tracing": {"endpoint": "http://otel:4318", "sampling": "101%"}},
    ),
    _spec("a free GPU", "cost.perGPUHour", "2.49", cost={"perGPUHour": "0"}),
    _spec("a negative price", "cost.perGPUHour", "2.49", cost={"perGPUHour": "-1"}),
    _spec("a price in words", "cost.perGPUHour", "2.49", cost={"perGPUHour": "2.49 USD"}),
    _spec("a price in kilos", "cost.perGPUHour", "2.49", cost={"perGPUHour": "900k"}),
    _spec("a price with a sign", "cost.perGPUHour", "2.49", cost={"perGPUHour": "+2.49"}),
    _spec("a sign", "cost.currency", "USD", cost={"perGPUHour": "2.49", "currency": "$"}),
    _spec("no price", "cost.perGPUHour", cost={"currency": "USD"}),
    _spec("tiny bodies", "router.limits.bodyBytes", router={"limits": {"bodyBytes": 1}}),
    _spec(
        "thousands of pod labels",
        "prefill.podTemplate.metadata.labels",
        prefill={"podTemplate": {"metadata": {"labels": {f"l{n}": "x" for n in range(5000)}}}},
    ),
    _spec(
        "unknown part of a pod template",
        "prefill.podTemplate.containers",
        prefill={"podTemplate": {"containers": []}},
    ),
    Bad("name of 41 characters", {"metadata": {"name": "a" * 41}}, "metadata.name", "chat-8b"),
    Bad("name with a dot", {"metadata": {"name": "a.b"}}, "metadata.name", "llama-3-1-8b"),
    Bad(
        "name that begins with a digit", {"metadata": {"name": "8b"}}, "metadata.name", "llama-3-1"
    ),
)
