"""Values that the chart refuses, each with words of the sentence that helm ends with.

`values.schema.json` finds those of `BY_SCHEMA`: the sentence is helm's and names the field.
`templates/_checks.tpl` finds those of `BY_SENTENCE`.
"""

from typing import Any, NamedTuple


class WrongValue(NamedTuple):
    """Values, and words of the sentence that refuses them."""

    values: dict[str, Any]
    sentence: str


DIGEST = "sha256:" + "0" * 64
NO_REGISTRY = {"global": {"imageRegistry": ""}}
BY_DIGEST = {key: {"digest": DIGEST} for key in ("image", "routerImage", "launcherImage")}

BY_SCHEMA = {
    "unknown value": WrongValue({"replica": 2}, "replica"),
    "unknown field of an image": WrongValue({"image": {"name": "x"}}, "name"),
    "image as one text": WrongValue({"image": "tandem/operator:1"}, "image"),
    "image of an unknown device": WrongValue({"engineImages": {"tpu": {}}}, "tpu"),
    "pull policy": WrongValue({"imagePullPolicy": "Sometimes"}, "imagePullPolicy"),
    "no replicas": WrongValue({"replicas": 0}, "replicas"),
    "replicas in words": WrongValue({"replicas": "two"}, "replicas"),
    "too many replicas": WrongValue({"replicas": 4}, "replicas"),
    "log level": WrongValue({"logLevel": "LOUD"}, "logLevel"),
    "old name": WrongValue({"watchNamespace": "a"}, "watchNamespace"),
    "one namespace as text": WrongValue({"watchNamespaces": "team-a"}, "watchNamespaces"),
    "strategy": WrongValue({"strategy": {"type": "BlueGreen"}}, "type"),
    "port": WrongValue({"networkPolicy": {"apiServerPorts": [70000]}}, "apiServerPorts"),
    "network policies neither on nor off": WrongValue(
        {"pools": {"networkPolicies": {"enabled": None}}}, "enabled"
    ),
    "no list of scrapers": WrongValue(
        {"pools": {"networkPolicies": {"metricsFrom": None}}}, "metricsFrom"
    ),
    "no bound on disruption": WrongValue(
        {"podDisruptionBudget": {"enabled": True, "maxUnavailable": None}}, "maxUnavailable"
    ),
    "environment without a name": WrongValue({"extraEnv": [{"value": "x"}]}, "extraEnv"),
    "environment as a map": WrongValue({"extraEnv": {"A": "b"}}, "extraEnv"),
    "label that is a number": WrongValue({"commonLabels": {"team": 1}}, "team"),
    "affinity": WrongValue({"affinity": {"node": {}}}, "node"),
    "spread without a key": WrongValue(
        {"topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]},
        "topologyKey",
    ),
    "unknown switch of pools": WrongValue({"pools": {"allowAll": True}}, "allowAll"),
    "switch that is a text": WrongValue({"pools": {"admissionPolicy": "yes"}}, "admissionPolicy"),
    "section that is taken away": WrongValue({"caBundle": None}, "caBundle"),
    "number as the label of dashboards": WrongValue(
        {"dashboards": {"sidecar": {"labelValue": 1}}}, "labelValue"
    ),
    "dashboards without a sidecar": WrongValue({"dashboards": {"sidecar": None}}, "sidecar"),
    "unknown field of resources": WrongValue({"resources": {"limit": {}}}, "limit"),
}

BY_SENTENCE = {
    "no registry": WrongValue(
        NO_REGISTRY,
        "image.registry is empty, and Tandem publishes no images yet; push your own images and name"
        " their registry, such as --set image.registry=registry.example.com, or set"
        " image.digest",
    ),
    "no registry for routers": WrongValue(
        {**NO_REGISTRY, "image": {"registry": "r.example.com"}}, "routerImage.registry is empty"
    ),
    "no registry for engines": WrongValue(
        {
            **NO_REGISTRY,
            **BY_DIGEST,
        },
        "engineImages.cpu.registry is empty",
    ),
    "no registry for vLLM's own image": WrongValue(
        {
            **NO_REGISTRY,
            **BY_DIGEST,
            "engineImages": {"cpu": {"repository": ""}, "gpu": {"registry": ""}},
        },
        "engineImages.gpu.registry is empty; write docker.io for vLLM's own image",
    ),
    "no version of vLLM": WrongValue(
        {"engineImages": {"gpu": {"tag": ""}}},
        "engineImages.gpu.tag is empty, and vLLM has versions of its own; write one, such as",
    ),
    "registry with a scheme": WrongValue(
        {"global": {"imageRegistry": "https://r.example.com"}},
        'global.imageRegistry is "https://r.example.com", which is not a registry; write its host'
        " without https://",
    ),
    "registry that is a user": WrongValue(
        {"image": {"registry": "acme"}},
        'image.registry is "acme", which Kubernetes reads as a path on docker.io',
    ),
    "no repository": WrongValue(
        {"routerImage": {"repository": ""}},
        "routerImage.repository is empty; write the path of the image in its registry, such as"
        " tandem/router",
    ),
    "repository with a registry": WrongValue(
        {"image": {"repository": "ghcr.io/acme/operator"}},
        "begins with a registry; write that part into image.registry",
    ),
    "repository with a tag": WrongValue(
        {"engineImages": {"gpu": {"repository": "tandem/engine:1"}}},
        'engineImages.gpu.repository is "tandem/engine:1", which is not a path in a registry',
    ),
    "tag": WrongValue({"image": {"tag": "0.1 beta"}}, 'image.tag is "0.1 beta"'),
    "digest": WrongValue(
        {"image": {"digest": "sha256:abc"}},
        "which is not a digest; write sha256: and 64 hexadecimal digits",
    ),
    "namespace": WrongValue(
        {"watchNamespaces": ["team-a", "Team_B"]},
        'watchNamespaces[1] is "Team_B", which cannot be a namespace',
    ),
    "name": WrongValue({"nameOverride": "Tandem"}, 'nameOverride is "Tandem"; write'),
    "whole name": WrongValue(
        {"fullnameOverride": "1-tandem"}, 'fullnameOverride is "1-tandem"; write at most 55'
    ),
    "account that cannot be": WrongValue(
        {"serviceAccount": {"name": "My_Account"}}, 'serviceAccount.name is "My_Account"'
    ),
    "account without a name": WrongValue(
        {"serviceAccount": {"create": False}},
        "serviceAccount.create is false, so serviceAccount.name must say which account",
    ),
    "value of a label": WrongValue(
        {"commonLabels": {"team": "search and ads"}},
        'commonLabels.team is "search and ads", which cannot be the value of a label',
    ),
    "key of a label": WrongValue({"podLabels": {"a b": "c"}}, 'podLabels has the key "a b"'),
    "rollout that never moves": WrongValue(
        {"strategy": {"rollingUpdate": {"maxSurge": 0}}},
        "maxSurge and maxUnavailable are both 0, so a rollout could not replace any pod",
    ),
    "rollout in words": WrongValue(
        {"strategy": {"rollingUpdate": {"maxSurge": "some"}}},
        'strategy.rollingUpdate.maxSurge is "some"; write a number of pods or a percentage',
    ),
    "budget that blocks": WrongValue(
        {"podDisruptionBudget": {"maxUnavailable": 0}}, "would block the drain of a node"
    ),
    "disruption budget of nothing as a percentage": WrongValue(
        {"podDisruptionBudget": {"maxUnavailable": "00%"}}, "would block the drain of a node"
    ),
    "root by the container": WrongValue(
        {"securityContext": {"runAsUser": 0}}, "securityContext.runAsUser is 0"
    ),
    "root": WrongValue({"podSecurityContext": {"runAsUser": 0}}, "does not run as root"),
    "argument of the chart": WrongValue(
        {"extraArgs": ["--namespace=team-a"]},
        "extraArgs sets --namespace, which this chart sets itself; use watchNamespaces",
    ),
    "fixed argument": WrongValue({"extraArgs": ["--health-port", "1"]}, "leave it out"),
    "variable of the chart in small letters": WrongValue(
        {"extraEnv": [{"name": "no_proxy", "value": ""}], "httpProxy": "http://proxy:3128"},
        "extraEnv sets no_proxy, which this chart sets itself; use noProxy",
    ),
    "variable of the chart": WrongValue(
        {"extraEnv": [{"name": "TANDEM_LOG_LEVEL", "value": "DEBUG"}]},
        "extraEnv sets TANDEM_LOG_LEVEL, which this chart sets itself; use logLevel",
    ),
    "volume of the chart": WrongValue(
        {"extraVolumes": [{"name": "tmp", "emptyDir": {}}]}, "give it another name"
    ),
    "mount without a volume": WrongValue(
        {"extraVolumeMounts": [{"name": "data", "mountPath": "/data"}]},
        'extraVolumeMounts[0].name is "data", which extraVolumes does not have',
    ),
    "mount on a mount": WrongValue(
        {
            "extraVolumes": [{"name": "data", "emptyDir": {}}],
            "extraVolumeMounts": [{"name": "data", "mountPath": "/tmp/"}],
        },
        "choose another path",
    ),
    "proxy without a scheme": WrongValue(
        {"httpProxy": "proxy:3128"}, 'httpProxy is "proxy:3128", which is not the URL of a proxy'
    ),
    "proxy with a password": WrongValue(
        {"httpsProxy": "http://me:secret@proxy:3128"},
        "httpsProxy holds a password, which every reader of the Deployment would see; put the URL"
        " into a Secret and set HTTPS_PROXY by extraEnv",
    ),
    "range without a proxy": WrongValue({"noProxy": "10.0.0.0/8"}, 'noProxy is "10.0.0.0/8"'),
    "two bundles": WrongValue(
        {"caBundle": {"configMap": "a", "secret": "b"}},
        "caBundle.configMap and caBundle.secret are both set",
    ),
    "Prometheus without a scheme": WrongValue(
        {"pools": {"prometheusUrls": ["prometheus:9090"]}},
        'pools.prometheusUrls[0] is "prometheus:9090", which is not a URL',
    ),
    "Prometheus with a password": WrongValue(
        {"pools": {"prometheusUrls": ["http://me:secret@prometheus:9090"]}},
        "pools.prometheusUrls[0] holds a password",
    ),
    "own Prometheus without a scheme": WrongValue(
        {"metrics": {"prometheus": {"url": "prometheus:9090"}}},
        'metrics.prometheus.url is "prometheus:9090", which is not a URL',
    ),
    "own Prometheus with a password": WrongValue(
        {"metrics": {"prometheus": {"url": "https://me:secret@prometheus"}}},
        "metrics.prometheus.url holds a password",
    ),
    "token without a server": WrongValue(
        {"metrics": {"prometheus": {"token": {"secret": "reader"}}}},
        "metrics.prometheus.url is empty, so its headers, token and ca would have no effect",
    ),
    "two tokens": WrongValue(
        {"metrics": {"prometheus": {"url": "https://p", "token": {"secret": "a", "file": "/b"}}}},
        "metrics.prometheus.token.secret and token.file are both set",
    ),
    "token without TLS": WrongValue(
        {"metrics": {"prometheus": {"url": "http://p", "token": {"secret": "a"}}}},
        'metrics.prometheus.url is "http://p", where everybody on the way could read the token',
    ),
    "token in no file": WrongValue(
        {"metrics": {"prometheus": {"url": "https://p", "token": {"file": "token"}}}},
        'metrics.prometheus.token.file is "token", which is not a whole path',
    ),
    "token that cannot be": WrongValue(
        {"metrics": {"prometheus": {"url": "https://p", "token": {"secret": "A_B"}}}},
        'metrics.prometheus.token.secret is "A_B", which cannot be a name',
    ),
    "authorities that cannot be": WrongValue(
        {"metrics": {"prometheus": {"url": "https://p", "ca": {"configMap": "A_B"}}}},
        'metrics.prometheus.ca.configMap is "A_B", which cannot be a name',
    ),
    "token as a header": WrongValue(
        {"metrics": {"prometheus": {"url": "https://p", "headers": {"Authorization": "Bearer x"}}}},
        "metrics.prometheus.headers has Authorization",
    ),
    "header of two lines": WrongValue(
        {"metrics": {"prometheus": {"url": "https://p", "headers": {"X-A": "b\nX-C: d"}}}},
        'metrics.prometheus.headers has "X-A" with',
    ),
    "Secret that cannot be": WrongValue(
        {"pools": {"hubTokenSecrets": ["HF_TOKEN"]}}, 'pools.hubTokenSecrets[0] is "HF_TOKEN"'
    ),
    "cache in no folder": WrongValue(
        {"pools": {"cacheHostPaths": ["/var/cache/../lib"]}},
        'pools.cacheHostPaths[0] is "/var/cache/../lib"',
    ),
    "cache in every folder": WrongValue(
        {"pools": {"cacheHostPaths": ["/"]}}, 'pools.cacheHostPaths[0] is "/"'
    ),
    "runbooks": WrongValue(
        {"metrics": {"prometheusRule": {"runbooks": "wiki"}}},
        'metrics.prometheusRule.runbooks is "wiki", which is not a page; write its URL',
    ),
    "interval": WrongValue(
        {"metrics": {"serviceMonitor": {"interval": "often"}}},
        'metrics.serviceMonitor.interval is "often", which is not a duration',
    ),
}
