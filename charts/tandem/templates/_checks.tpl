{{- /* What no schema says in a sentence. The first wrong value ends helm with what to write instead. */}}
{{- define "tandem.checks" -}}
{{- include "tandem.checkImages" . }}
{{- include "tandem.checkNames" . }}
{{- include "tandem.checkLabels" . }}
{{- include "tandem.checkRollout" . }}
{{- include "tandem.checkExtras" . }}
{{- include "tandem.checkConnections" . }}
{{- include "tandem.checkPrometheus" . }}
{{- end }}

{{- define "tandem.checkImages" -}}
{{- $global := (.Values.global | default dict).imageRegistry }}
{{- $images := dict "image" .Values.image "routerImage" .Values.routerImage "launcherImage" .Values.launcherImage "engineImages.cpu" .Values.engineImages.cpu "engineImages.gpu" .Values.engineImages.gpu }}
{{- include "tandem.checkRegistry" (list "global.imageRegistry" $global) }}
{{- range $field := list "image" "routerImage" "launcherImage" "engineImages.cpu" "engineImages.gpu" }}
{{- $value := get $images $field }}
{{- include "tandem.checkRegistry" (list (printf "%s.registry" $field) $value.registry) }}
{{- if $value.repository }}
{{- if regexMatch "^(localhost|[^/]*[.:][^/]*)/" $value.repository }}
{{- fail (printf "%s.repository is %q, which begins with a registry; write that part into %s.registry" $field $value.repository $field) }}
{{- end }}
{{- if not (regexMatch "^[a-z0-9]+([._/-]+[a-z0-9]+)*$" $value.repository) }}
{{- fail (printf "%s.repository is %q, which is not a path in a registry; write lower-case letters, digits and . _ - /, such as tandem/operator" $field $value.repository) }}
{{- end }}
{{- if and $value.digest (not (regexMatch "^sha256:[0-9a-f]{64}$" $value.digest)) }}
{{- fail (printf "%s.digest is %q, which is not a digest; write sha256: and 64 hexadecimal digits, as the registry shows them" $field $value.digest) }}
{{- end }}
{{- if and $value.tag (not (regexMatch "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$" $value.tag)) }}
{{- fail (printf "%s.tag is %q, which is not a tag; write letters, digits and . _ -, such as 0.1.0" $field $value.tag) }}
{{- end }}
{{- if eq $field "engineImages.gpu" }}
{{- if not (or $value.tag $value.digest) }}
{{- fail "engineImages.gpu.tag is empty, and vLLM has versions of its own; write one, such as v0.32.0, or set engineImages.gpu.digest" }}
{{- end }}
{{- if not (or $global $value.registry) }}
{{- fail "engineImages.gpu.registry is empty; write docker.io for vLLM's own image, or the registry of your mirror" }}
{{- end }}
{{- else if not (or $global $value.registry $value.digest) }}
{{- fail (printf "%s.registry is empty, and Tandem publishes no images yet; push your own images and name their registry, such as --set %s.registry=registry.example.com, or set %s.digest" $field $field $field) }}
{{- end }}
{{- else if not (hasPrefix "engineImages" $field) }}
{{- fail (printf "%s.repository is empty; write the path of the image in its registry, such as tandem/%s" $field (get (dict "image" "operator" "routerImage" "router" "launcherImage" "launcher") $field)) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "tandem.checkRegistry" -}}
{{- $field := index . 0 }}
{{- with index . 1 }}
{{- if not (regexMatch "^[A-Za-z0-9.-]+(:[0-9]+)?(/[a-z0-9._-]+)*$" .) }}
{{- fail (printf "%s is %q, which is not a registry; write its host without https:// and without a last /, such as registry.example.com:5000" $field .) }}
{{- end }}
{{- if not (regexMatch "^(localhost|[^/]*[.:][^/]*)(/|$)" .) }}
{{- fail (printf "%s is %q, which Kubernetes reads as a path on docker.io; write the whole host, such as registry.example.com" $field .) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "tandem.checkNames" -}}
{{- range $index, $name := .Values.watchNamespaces }}
{{- if or (gt (len $name) 63) (not (regexMatch "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" $name)) }}
{{- fail (printf "watchNamespaces[%d] is %q, which cannot be a namespace; write lower-case letters, digits and -, such as team-a" $index $name) }}
{{- end }}
{{- end }}
{{- with .Values.nameOverride }}
{{- if or (gt (len .) 40) (not (regexMatch "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" .)) }}
{{- fail (printf "nameOverride is %q; write at most 40 lower-case letters, digits and -, such as operator" .) }}
{{- end }}
{{- end }}
{{- with .Values.fullnameOverride }}
{{- if or (gt (len .) 55) (not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" .)) }}
{{- fail (printf "fullnameOverride is %q; write at most 55 lower-case letters, digits and -, a letter first, such as tandem-operator" .) }}
{{- end }}
{{- end }}
{{- with .Values.serviceAccount.name }}
{{- if not (regexMatch "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$" .) }}
{{- fail (printf "serviceAccount.name is %q, which cannot be an account; write lower-case letters, digits and -, such as tandem" .) }}
{{- end }}
{{- end }}
{{- if not (or .Values.serviceAccount.create .Values.serviceAccount.name) }}
{{- fail "serviceAccount.create is false, so serviceAccount.name must say which account the operator uses" }}
{{- end }}
{{- range $index, $name := .Values.pools.hubTokenSecrets }}
{{- if not (regexMatch "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$" $name) }}
{{- fail (printf "pools.hubTokenSecrets[%d] is %q, which cannot be a Secret; write lower-case letters, digits, - and ., such as hf-token" $index $name) }}
{{- end }}
{{- end }}
{{- range $index, $path := .Values.pools.cacheHostPaths }}
{{- if not (regexMatch "^(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)+$" $path) }}
{{- fail (printf "pools.cacheHostPaths[%d] is %q, which cannot be a folder of a node; write an absolute path, such as /var/lib/tandem-cache" $index $path) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "tandem.checkLabels" -}}
{{- $values := .Values }}
{{- range $field := list "commonLabels" "podLabels" }}
{{- range $key, $value := get $values $field | default dict }}
{{- if not (regexMatch "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$" $key) }}
{{- fail (printf "%s has the key %q, which cannot be a label; write letters, digits and - _ ., such as team or example.com/team" $field $key) }}
{{- end }}
{{- if not (regexMatch "^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$" $value) }}
{{- fail (printf "%s.%s is %q, which cannot be the value of a label; write at most 63 letters, digits and - _ ., or use annotations" $field $key $value) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "tandem.checkRollout" -}}
{{- $rolling := .Values.strategy.rollingUpdate | default dict }}
{{- $counts := dict "strategy.rollingUpdate.maxSurge" $rolling.maxSurge "strategy.rollingUpdate.maxUnavailable" $rolling.maxUnavailable "podDisruptionBudget.maxUnavailable" .Values.podDisruptionBudget.maxUnavailable }}
{{- range $field, $count := $counts }}
{{- if and (ne $count nil) (not (regexMatch "^[0-9]+%?$" (toString $count))) }}
{{- fail (printf "%s is %q; write a number of pods or a percentage, such as 1 or 25%%" $field (toString $count)) }}
{{- end }}
{{- end }}
{{- $nothing := "^0+%?$" }}
{{- if and (eq .Values.strategy.type "RollingUpdate") (regexMatch $nothing (toString $rolling.maxSurge)) (regexMatch $nothing (toString $rolling.maxUnavailable)) }}
{{- fail "strategy.rollingUpdate.maxSurge and maxUnavailable are both 0, so a rollout could not replace any pod; write maxSurge: 1" }}
{{- end }}
{{- if and .Values.podDisruptionBudget.enabled (regexMatch $nothing (toString .Values.podDisruptionBudget.maxUnavailable)) }}
{{- fail "podDisruptionBudget.maxUnavailable is 0, which would block the drain of a node; write 1" }}
{{- end }}
{{- range $field := list "podSecurityContext" "securityContext" }}
{{- $user := (get $.Values $field | default dict).runAsUser }}
{{- if and (ne $user nil) (eq (toString $user) "0") }}
{{- fail (printf "%s.runAsUser is 0, and the operator does not run as root; leave it out, or write a number above 0" $field) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* A value here that the chart sets too would win or be refused by the API server. */}}
{{- define "tandem.checkExtras" -}}
{{- $arguments := dict "--namespace" "watchNamespaces" "--metrics-port" "" "--health-port" "" "--leader-elect" "replicas" "--lease-namespace" "" "--allow-any-pod-template" "pools.allowAnyPodTemplate" "--allow-any-extra-args" "pools.allowAnyExtraArgs" "--no-network-policies" "pools.networkPolicies.enabled" "--metrics-from" "pools.networkPolicies.metricsFrom" "--engine-egress" "pools.networkPolicies.engineEgress" "--prometheus-url" "pools.prometheusUrls" "--prometheus" "metrics.prometheus" "--hub-token-secret" "pools.hubTokenSecrets" "--cache-host-path" "pools.cacheHostPaths" "--gateway-routes" "pools.gatewayRoutes" }}
{{- range .Values.extraArgs }}
{{- $option := regexReplaceAll "=.*" . "" }}
{{- if hasKey $arguments $option }}
{{- $instead := get $arguments $option }}
{{- fail (printf "extraArgs sets %s, which this chart sets itself; %s" $option (ternary (printf "use %s" $instead) "leave it out" (ne $instead ""))) }}
{{- end }}
{{- end }}
{{- $variables := dict "TANDEM_ROUTER_IMAGE" "routerImage" "TANDEM_LAUNCHER_IMAGE" "launcherImage" "TANDEM_ENGINE_CPU_IMAGE" "engineImages.cpu" "TANDEM_ENGINE_GPU_IMAGE" "engineImages.gpu" "TANDEM_LOG_LEVEL" "logLevel" "NO_PROXY" "noProxy" }}
{{- if .Values.httpProxy }}{{ $_ := set $variables "HTTP_PROXY" "httpProxy" }}{{ end }}
{{- if .Values.httpsProxy }}{{ $_ := set $variables "HTTPS_PROXY" "httpsProxy" }}{{ end }}
{{- if include "tandem.hasBundle" . }}{{ $_ := set $variables "SSL_CERT_FILE" "caBundle" }}{{ end }}
{{- range .Values.extraEnv }}
{{- if hasKey $variables (upper .name) }}
{{- fail (printf "extraEnv sets %s, which this chart sets itself; use %s" .name (get $variables (upper .name))) }}
{{- end }}
{{- end }}
{{- $volumes := list }}
{{- range .Values.extraVolumes }}
{{- if has .name (list "tmp" "ca-bundle" "prometheus") }}
{{- fail (printf "extraVolumes has %q, which is a volume of this chart; give it another name" .name) }}
{{- end }}
{{- $volumes = append $volumes .name }}
{{- end }}
{{- range $index, $mount := .Values.extraVolumeMounts }}
{{- if not (has $mount.name $volumes) }}
{{- fail (printf "extraVolumeMounts[%d].name is %q, which extraVolumes does not have; add the volume there" $index $mount.name) }}
{{- end }}
{{- if has (trimSuffix "/" $mount.mountPath) (list "/tmp" "/etc/tandem-ca" "/etc/tandem-prometheus") }}
{{- fail (printf "extraVolumeMounts[%d].mountPath is %q, where this chart mounts a volume of its own; choose another path" $index $mount.mountPath) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "tandem.checkConnections" -}}
{{- $values := .Values }}
{{- range $field := list "httpProxy" "httpsProxy" }}
{{- with get $values $field }}
{{- if contains "@" . }}
{{- fail (printf "%s holds a password, which every reader of the Deployment would see; put the URL into a Secret and set %s by extraEnv" $field (ternary "HTTP_PROXY" "HTTPS_PROXY" (eq $field "httpProxy"))) }}
{{- end }}
{{- if not (regexMatch "^http://[^\\s/?#]+/?$" .) }}
{{- fail (printf "%s is %q, which is not the URL of a proxy; write http:// and its host and port, such as http://proxy.example.com:3128" $field .) }}
{{- end }}
{{- end }}
{{- end }}
{{- if regexMatch "[\\s/]" (.Values.noProxy | default "") }}
{{- fail (printf "noProxy is %q; write hosts with commas between them and neither blanks nor /, such as .example.com,10.1.2.3" .Values.noProxy) }}
{{- end }}
{{- if and .Values.caBundle.configMap .Values.caBundle.secret }}
{{- fail "caBundle.configMap and caBundle.secret are both set; name the one that holds the certificates" }}
{{- end }}
{{- range $index, $url := .Values.pools.prometheusUrls }}
{{- if contains "@" $url }}
{{- fail (printf "pools.prometheusUrls[%d] holds a password, which every reader of the Deployment would see; leave it out" $index) }}
{{- end }}
{{- if or (gt (len $url) 512) (not (regexMatch "^https?://[^\\s?#]+$" $url)) }}
{{- fail (printf "pools.prometheusUrls[%d] is %q, which is not a URL; write http:// or https:// and the server, such as http://prometheus.monitoring.svc:9090" $index $url) }}
{{- end }}
{{- end }}
{{- $interval := .Values.metrics.serviceMonitor.interval | default "" }}
{{- if not (regexMatch "^[0-9]+(ms|s|m)$" $interval) }}
{{- fail (printf "metrics.serviceMonitor.interval is %q, which is not a duration; write a number and ms, s or m, such as 15s" $interval) }}
{{- end }}
{{- $runbooks := .Values.metrics.prometheusRule.runbooks | default "" }}
{{- if not (regexMatch "^https?://[^\\s#]+$" $runbooks) }}
{{- fail (printf "metrics.prometheusRule.runbooks is %q, which is not a page; write its URL without #, such as https://wiki.example.com/tandem" $runbooks) }}
{{- end }}
{{- end }}
