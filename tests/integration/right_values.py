"""Every value of the chart, and what it changes in the rendered objects.

A path leads through an object as in `kubectl get -o jsonpath`, with `[name]` for the item of a list
that has this name.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from manifests.generate import NAMESPACE, REGISTRY
from tests.unit.api.bad_pools import merged

DIGEST = "sha256:" + "0" * 64
POD = "Deployment/tandem-operator:spec.template"
OPERATOR = f"{POD}.spec.containers[operator]"
ENV = f"{OPERATOR}.env"
MONITOR = "ServiceMonitor/tandem-operator"
RULE = "PrometheusRule/tandem-operator"
WITH_RULES = {"metrics": {"prometheusRule": {"enabled": True}}}
WITH_PROMETHEUS: dict[str, Any] = {"metrics": {"prometheus": {"url": "https://p"}}}
DASHBOARD = "ConfigMap/tandem-operator-dashboard-fleet"
WITH_DASHBOARDS: dict[str, Any] = {"dashboards": {"enabled": True}}
SELECTED = {
    "app.kubernetes.io/component": "operator",
    "app.kubernetes.io/instance": "tandem",
    "app.kubernetes.io/name": "tandem",
}
CLUSTER = "localhost,127.0.0.1,$(KUBERNETES_SERVICE_HOST),.svc,.cluster.local"


class RightValue(NamedTuple):
    """Values, and what the rendered objects then have at a path; `None`: nothing.

    `beside` holds values that are set before and after.
    """

    values: dict[str, Any]
    path: str
    found: Any
    beside: Mapping[str, Any] = MappingProxyType({})


def _image(field: str, path: str, repository: str) -> dict[str, RightValue]:
    def row(changes: dict[str, Any], found: str) -> RightValue:
        values: dict[str, Any] = changes
        for key in reversed(field.split(".")):
            values = {key: values}
        return RightValue(values, path, found, OTHERS)

    own = {"registry": "own.example.com:5000/mirror"}
    return {
        f"{field}.registry": row(own, f"own.example.com:5000/mirror/{repository}:0.1.0"),
        f"{field}.repository": row(
            {"registry": REGISTRY, "repository": "a/b"}, f"{REGISTRY}/a/b:0.1.0"
        ),
        f"{field}.tag": row({"registry": REGISTRY, "tag": "9"}, f"{REGISTRY}/{repository}:9"),
        f"{field}.digest": row(
            {"registry": "", "digest": DIGEST, "tag": "9"}, f"{repository}@{DIGEST}"
        ),
    }


# Each with a registry of its own, and none for all.
OTHERS: dict[str, Any] = {
    "global": {"imageRegistry": ""},
    "image": {"registry": REGISTRY},
    "routerImage": {"registry": REGISTRY},
    "launcherImage": {"registry": REGISTRY},
    "engineImages": {"cpu": {"registry": REGISTRY}},
}
RIGHT_VALUES = {
    "global.imageRegistry": RightValue(
        {"global": {"imageRegistry": "all.example.com"}},
        f"{OPERATOR}.image",
        "all.example.com/tandem/operator:0.1.0",
        OTHERS,
    ),
    "global.imagePullSecrets": RightValue(
        {"global": {"imagePullSecrets": ["a", {"name": "b"}]}, "imagePullSecrets": ["a", "c"]},
        f"{POD}.spec.imagePullSecrets",
        [{"name": "a"}, {"name": "b"}, {"name": "c"}],
    ),
    **_image("image", f"{OPERATOR}.image", "tandem/operator"),
    "imagePullPolicy": RightValue(
        {"imagePullPolicy": "Always"}, f"{OPERATOR}.imagePullPolicy", "Always"
    ),
    "imagePullSecrets": RightValue(
        {"imagePullSecrets": ["a"]}, f"{POD}.spec.imagePullSecrets", [{"name": "a"}]
    ),
    **_image("routerImage", f"{ENV}[TANDEM_ROUTER_IMAGE].value", "tandem/router"),
    **_image("launcherImage", f"{ENV}[TANDEM_LAUNCHER_IMAGE].value", "tandem/launcher"),
    "engineImages.cpu": RightValue(
        {"engineImages": {"cpu": {"repository": "a/b", "tag": "9"}}},
        f"{ENV}[TANDEM_ENGINE_CPU_IMAGE].value",
        f"{REGISTRY}/a/b:9",
    ),
    "engineImages.gpu": RightValue(
        {"engineImages": {"gpu": {"tag": "v0.33.0"}}},
        f"{ENV}[TANDEM_ENGINE_GPU_IMAGE].value",
        "docker.io/vllm/vllm-openai:v0.33.0",
        OTHERS,
    ),
    "crds.enabled": RightValue(
        {"crds": {"enabled": False}},
        "CustomResourceDefinition/inferencepools.tandem-inference.io",
        None,
    ),
    "nameOverride": RightValue(
        {"nameOverride": "size"}, "Deployment/tandem-size:spec.selector.matchLabels", SELECTED
    ),
    "fullnameOverride": RightValue(
        {"fullnameOverride": "sizer"}, "Service/sizer-metrics:metadata.namespace", NAMESPACE
    ),
    "commonLabels": RightValue(
        {"commonLabels": {"team": "a"}}, "Service/tandem-operator-metrics:metadata.labels.team", "a"
    ),
    "commonAnnotations": RightValue(
        {"commonAnnotations": {"note": "a"}},
        "ClusterRole/tandem-operator:metadata.annotations",
        {"note": "a"},
    ),
    "replicas": RightValue({"replicas": 2}, "Deployment/tandem-operator:spec.replicas", 2),
    "strategy.type": RightValue(
        {"strategy": {"type": "Recreate"}},
        "Deployment/tandem-operator:spec.strategy",
        {"type": "Recreate"},
    ),
    "strategy.rollingUpdate": RightValue(
        {"strategy": {"rollingUpdate": {"maxSurge": "50%"}}},
        "Deployment/tandem-operator:spec.strategy.rollingUpdate",
        {"maxSurge": "50%", "maxUnavailable": 0},
    ),
    "podDisruptionBudget.enabled": RightValue(
        {"podDisruptionBudget": {"enabled": False}},
        "PodDisruptionBudget/tandem-operator:spec",
        None,
        {"replicas": 2},
    ),
    "podDisruptionBudget.maxUnavailable": RightValue(
        {"podDisruptionBudget": {"maxUnavailable": "50%"}},
        "PodDisruptionBudget/tandem-operator:spec.maxUnavailable",
        "50%",
        {"replicas": 3},
    ),
    "watchNamespaces": RightValue(
        {"watchNamespaces": ["team-b", "team-a"]}, "ClusterRole/tandem-operator:rules", None
    ),
    "pools.allowAnyPodTemplate": RightValue(
        {"pools": {"allowAnyPodTemplate": True}},
        f"{OPERATOR}.args[--allow-any-pod-template]",
        "--allow-any-pod-template",
    ),
    "pools.allowAnyExtraArgs": RightValue(
        {"pools": {"allowAnyExtraArgs": True}},
        f"{OPERATOR}.args[--allow-any-extra-args]",
        "--allow-any-extra-args",
    ),
    "pools.networkPolicies.enabled": RightValue(
        {"pools": {"networkPolicies": {"enabled": False}}},
        f"{OPERATOR}.args[--no-network-policies]",
        "--no-network-policies",
    ),
    "pools.networkPolicies.metricsFrom": RightValue(
        {"pools": {"networkPolicies": {"metricsFrom": []}}},
        f"{OPERATOR}.args[--metrics-from]",
        "--metrics-from=[]",
    ),
    "pools.networkPolicies.engineEgress": RightValue(
        {"pools": {"networkPolicies": {"engineEgress": [{"ports": []}]}}},
        f"{OPERATOR}.args[--engine-egress]",
        '--engine-egress=[{"ports":[]}]',
    ),
    "pools.admissionPolicy": RightValue(
        {"pools": {"admissionPolicy": True}, "watchNamespaces": ["a", "b"]},
        "ValidatingAdmissionPolicyBinding/tandem-operator-pools:spec.matchResources"
        ".namespaceSelector.matchExpressions",
        [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"]}],
    ),
    "pools.prometheusUrls": RightValue(
        {"pools": {"prometheusUrls": ["http://p:9090"]}},
        f"{OPERATOR}.args[--prometheus-url]",
        "--prometheus-url=http://p:9090",
    ),
    "pools.gatewayRoutes": RightValue(
        {"pools": {"gatewayRoutes": True}},
        f"{OPERATOR}.args[--gateway-routes]",
        "--gateway-routes",
    ),
    "pools.hubTokenSecrets": RightValue(
        {"pools": {"hubTokenSecrets": ["hf"]}},
        f"{OPERATOR}.args[--hub-token-secret]",
        "--hub-token-secret=hf",
    ),
    "pools.cacheHostPaths": RightValue(
        {"pools": {"cacheHostPaths": ["/var/lib/cache"]}},
        f"{OPERATOR}.args[--cache-host-path]",
        "--cache-host-path=/var/lib/cache",
    ),
    "logLevel": RightValue({"logLevel": "DEBUG"}, f"{ENV}[TANDEM_LOG_LEVEL].value", "DEBUG"),
    "extraArgs": RightValue({"extraArgs": ["--new=1"]}, f"{OPERATOR}.args[--new]", "--new=1"),
    "extraEnv": RightValue(
        {"extraEnv": [{"name": "A", "value": "b"}]}, f"{ENV}[A]", {"name": "A", "value": "b"}
    ),
    "extraVolumes": RightValue(
        {"extraVolumes": [{"name": "a", "emptyDir": {}}]},
        f"{POD}.spec.volumes[a]",
        {"name": "a", "emptyDir": {}},
    ),
    "extraVolumeMounts": RightValue(
        {
            "extraVolumes": [{"name": "a", "emptyDir": {}}],
            "extraVolumeMounts": [{"name": "a", "mountPath": "/a"}],
        },
        f"{OPERATOR}.volumeMounts[a]",
        {"name": "a", "mountPath": "/a"},
    ),
    "httpProxy": RightValue({"httpProxy": "http://p:1"}, f"{ENV}[HTTP_PROXY].value", "http://p:1"),
    "httpsProxy": RightValue(
        {"httpsProxy": "http://p:1"}, f"{ENV}[HTTPS_PROXY].value", "http://p:1"
    ),
    "noProxy": RightValue(
        {"noProxy": ".example.com"}, f"{ENV}[NO_PROXY].value", f"{CLUSTER},.example.com"
    ),
    "caBundle.configMap": RightValue(
        {"caBundle": {"configMap": "ours"}},
        f"{POD}.spec.volumes[ca-bundle].configMap",
        {"name": "ours", "items": [{"key": "ca.crt", "path": "ca.crt"}]},
    ),
    "caBundle.secret": RightValue(
        {"caBundle": {"secret": "ours"}}, f"{ENV}[SSL_CERT_FILE].value", "/etc/tandem-ca/ca.crt"
    ),
    "caBundle.key": RightValue(
        {"caBundle": {"key": "root.pem"}},
        f"{POD}.spec.volumes[ca-bundle].secret",
        {"secretName": "ours", "items": [{"key": "root.pem", "path": "ca.crt"}]},
        {"caBundle": {"secret": "ours"}},
    ),
    "podSecurityContext": RightValue(
        {"podSecurityContext": {"runAsUser": 1000}}, f"{POD}.spec.securityContext.runAsUser", 1000
    ),
    "securityContext": RightValue(
        {"securityContext": {"readOnlyRootFilesystem": False}},
        f"{OPERATOR}.securityContext.readOnlyRootFilesystem",
        False,
    ),
    "resources": RightValue(
        {"resources": {"limits": {"memory": "1Gi"}}}, f"{OPERATOR}.resources.limits.memory", "1Gi"
    ),
    "nodeSelector": RightValue(
        {"nodeSelector": {"disk": "ssd"}}, f"{POD}.spec.nodeSelector", {"disk": "ssd"}
    ),
    "tolerations": RightValue(
        {"tolerations": [{"operator": "Exists"}]},
        f"{POD}.spec.tolerations",
        [{"operator": "Exists"}],
    ),
    "affinity": RightValue(
        {"affinity": {"podAntiAffinity": {}}}, f"{POD}.spec.affinity", {"podAntiAffinity": {}}
    ),
    "topologySpreadConstraints": RightValue(
        {
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
            ]
        },
        f"{POD}.spec.topologySpreadConstraints",
        [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": SELECTED},
            }
        ],
    ),
    "priorityClassName": RightValue(
        {"priorityClassName": "high"}, f"{POD}.spec.priorityClassName", "high"
    ),
    "podLabels": RightValue(
        {"podLabels": {"team": "a"}, "commonLabels": {"team": "b", "org": "c"}},
        f"{POD}.metadata.labels",
        {**SELECTED, "team": "a", "org": "c"},
    ),
    "podAnnotations": RightValue(
        {"podAnnotations": {"note": "a"}, "commonAnnotations": {"org": "c"}},
        f"{POD}.metadata.annotations",
        {"note": "a", "org": "c"},
    ),
    "serviceAccount.create": RightValue(
        {"serviceAccount": {"create": False, "name": "ours"}},
        "ServiceAccount/tandem-operator:metadata",
        None,
    ),
    "serviceAccount.name": RightValue(
        {"serviceAccount": {"name": "ours"}}, f"{POD}.spec.serviceAccountName", "ours"
    ),
    "serviceAccount.annotations": RightValue(
        {"serviceAccount": {"annotations": {"note": "a"}}},
        "ServiceAccount/tandem-operator:metadata.annotations",
        {"note": "a"},
    ),
    "rbac.create": RightValue({"rbac": {"create": False}}, "ClusterRole/tandem-operator", None),
    "rbac.userRoles": RightValue(
        {"rbac": {"userRoles": False}}, "ClusterRole/tandem-operator-pools-view", None
    ),
    "metrics.serviceMonitor.enabled": RightValue(
        {"metrics": {"serviceMonitor": {"enabled": False}}}, MONITOR, None
    ),
    "metrics.serviceMonitor.interval": RightValue(
        {"metrics": {"serviceMonitor": {"interval": "1m"}}},
        f"{MONITOR}:spec.endpoints",
        [{"port": "metrics", "interval": "1m", "honorLabels": True}],
    ),
    "metrics.serviceMonitor.labels": RightValue(
        {"metrics": {"serviceMonitor": {"labels": {"release": "p"}}}},
        f"{MONITOR}:metadata.labels.release",
        "p",
    ),
    "metrics.prometheusRule.enabled": RightValue(
        {"metrics": {"prometheusRule": {"enabled": True}}}, f"{RULE}:metadata.namespace", NAMESPACE
    ),
    "metrics.prometheusRule.labels": RightValue(
        {"metrics": {"prometheusRule": {"labels": {"release": "p"}}}},
        f"{RULE}:metadata.labels.release",
        "p",
        WITH_RULES,
    ),
    "metrics.prometheusRule.runbooks": RightValue(
        {"metrics": {"prometheusRule": {"runbooks": "https://wiki.example.com/t"}}},
        f"{RULE}:spec.groups.0.rules.0.annotations.runbook_url",
        "https://wiki.example.com/t#tandempooloutage",
        WITH_RULES,
    ),
    "dashboards.enabled": RightValue(
        WITH_DASHBOARDS, f"{DASHBOARD}:metadata.annotations.grafana_folder", "Tandem"
    ),
    "dashboards.namespace": RightValue(
        {"dashboards": {"namespace": "monitoring"}},
        f"{DASHBOARD}:metadata.namespace",
        "monitoring",
        WITH_DASHBOARDS,
    ),
    "dashboards.folder": RightValue(
        {"dashboards": {"folder": "Models"}},
        f"{DASHBOARD}:metadata.annotations.grafana_folder",
        "Models",
        WITH_DASHBOARDS,
    ),
    "dashboards.sidecar.label": RightValue(
        {"dashboards": {"sidecar": {"label": "grafana"}}},
        f"{DASHBOARD}:metadata.labels.grafana",
        "1",
        WITH_DASHBOARDS,
    ),
    "dashboards.sidecar.labelValue": RightValue(
        {"dashboards": {"sidecar": {"labelValue": "yes"}}},
        f"{DASHBOARD}:metadata.labels.grafana_dashboard",
        "yes",
        WITH_DASHBOARDS,
    ),
    "dashboards.sidecar.folderAnnotation": RightValue(
        {"dashboards": {"sidecar": {"folderAnnotation": "k8s-folder"}}},
        f"{DASHBOARD}:metadata.annotations.k8s-folder",
        "Tandem",
        WITH_DASHBOARDS,
    ),
    "metrics.prometheus.url": RightValue(
        {"metrics": {"prometheus": {"url": "https://p:9443/prom"}}},
        f"{OPERATOR}.args[--prometheus]",
        '--prometheus={"url":"https://p:9443/prom"}',
    ),
    "metrics.prometheus.headers": RightValue(
        {"metrics": {"prometheus": {"headers": {"X-Scope-OrgID": "a|b"}}}},
        f"{OPERATOR}.args[--prometheus]",
        '--prometheus={"headers":{"X-Scope-OrgID":"a|b"},"url":"http://p"}',
        {"metrics": {"prometheus": {"url": "http://p"}}},
    ),
    "metrics.prometheus.token.secret": RightValue(
        {"metrics": {"prometheus": {"token": {"secret": "reader"}}}},
        f"{OPERATOR}.args[--prometheus]",
        '--prometheus={"tokenFile":"/etc/tandem-prometheus/token","url":"https://p"}',
        WITH_PROMETHEUS,
    ),
    "metrics.prometheus.token.key": RightValue(
        {"metrics": {"prometheus": {"token": {"key": "bearer"}}}},
        f"{POD}.spec.volumes[prometheus].projected.sources",
        [{"secret": {"name": "reader", "items": [{"key": "bearer", "path": "token"}]}}],
        merged(WITH_PROMETHEUS, {"metrics": {"prometheus": {"token": {"secret": "reader"}}}}),
    ),
    "metrics.prometheus.token.file": RightValue(
        {"metrics": {"prometheus": {"token": {"file": "/a/token"}}}},
        f"{OPERATOR}.args[--prometheus]",
        '--prometheus={"tokenFile":"/a/token","url":"https://p"}',
        WITH_PROMETHEUS,
    ),
    "metrics.prometheus.ca.configMap": RightValue(
        {"metrics": {"prometheus": {"ca": {"configMap": "ours"}}}},
        f"{OPERATOR}.args[--prometheus]",
        '--prometheus={"authorityFile":"/etc/tandem-prometheus/ca.crt","url":"https://p"}',
        WITH_PROMETHEUS,
    ),
    "metrics.prometheus.ca.key": RightValue(
        {"metrics": {"prometheus": {"ca": {"key": "root.pem"}}}},
        f"{POD}.spec.volumes[prometheus].projected.sources",
        [{"configMap": {"name": "ours", "items": [{"key": "root.pem", "path": "ca.crt"}]}}],
        merged(WITH_PROMETHEUS, {"metrics": {"prometheus": {"ca": {"configMap": "ours"}}}}),
    ),
    "networkPolicy.enabled": RightValue(
        {"networkPolicy": {"enabled": True}},
        "NetworkPolicy/tandem-operator:spec.policyTypes",
        ["Ingress", "Egress"],
    ),
    "networkPolicy.apiServerPorts": RightValue(
        {"networkPolicy": {"enabled": True, "apiServerPorts": [8443], "prometheusPorts": []}},
        "NetworkPolicy/tandem-operator:spec.egress.1.ports",
        [{"port": 8443, "protocol": "TCP"}],
    ),
    "networkPolicy.prometheusPorts": RightValue(
        {"networkPolicy": {"enabled": True, "apiServerPorts": [], "prometheusPorts": [9091]}},
        "NetworkPolicy/tandem-operator:spec.egress.1.ports",
        [{"port": 9091, "protocol": "TCP"}],
    ),
}
