{{- /* The server of pools that name none, as the operator's option --prometheus has it. */}}
{{- define "tandem.prometheus" -}}
{{- with .Values.metrics.prometheus }}
{{- if .url }}
{{- $server := dict "url" .url }}
{{- with .headers }}{{ $_ := set $server "headers" . }}{{ end }}
{{- if .token.secret }}{{ $_ := set $server "tokenFile" "/etc/tandem-prometheus/token" }}{{ end }}
{{- with .token.file }}{{ $_ := set $server "tokenFile" . }}{{ end }}
{{- if .ca.configMap }}{{ $_ := set $server "authorityFile" "/etc/tandem-prometheus/ca.crt" }}{{ end }}
{{- toJson $server }}
{{- end }}
{{- end }}
{{- end }}

{{- define "tandem.hasPrometheusFiles" -}}
{{- with .Values.metrics.prometheus }}
{{- if or .token.secret .ca.configMap -}}
true
{{- end }}
{{- end }}
{{- end }}

{{- /* The port of its URL, which the operator's own NetworkPolicy lets through; nothing without a URL. */}}
{{- define "tandem.prometheusPort" -}}
{{- with .Values.metrics.prometheus.url }}
{{- $address := regexFind "^https?://[^/]+" . }}
{{- regexFind ":[0-9]+$" $address | trimPrefix ":" | default (ternary "443" "80" (hasPrefix "https:" .)) }}
{{- end }}
{{- end }}

{{- define "tandem.checkPrometheus" -}}
{{- with .Values.metrics.prometheus }}
{{- $url := .url | default "" }}
{{- if contains "@" $url }}
{{- fail "metrics.prometheus.url holds a password, which every reader of the Deployment would see; use metrics.prometheus.token.secret" }}
{{- end }}
{{- if and $url (or (gt (len $url) 512) (not (regexMatch "^https?://[^\\s?#]+$" $url))) }}
{{- fail (printf "metrics.prometheus.url is %q, which is not a URL; write http:// or https:// and the server, such as https://prometheus.monitoring.svc:9090" $url) }}
{{- end }}
{{- if and (not $url) (or .headers .token.secret .token.file .ca.configMap) }}
{{- fail "metrics.prometheus.url is empty, so its headers, token and ca would have no effect; write the server, such as https://prometheus.monitoring.svc:9090" }}
{{- end }}
{{- if and .token.secret .token.file }}
{{- fail "metrics.prometheus.token.secret and token.file are both set; name the one that holds the token" }}
{{- end }}
{{- if and (or .token.secret .token.file) (not (hasPrefix "https://" $url)) }}
{{- fail (printf "metrics.prometheus.url is %q, where everybody on the way could read the token; write an https:// URL" $url) }}
{{- end }}
{{- if and .token.file (not (hasPrefix "/" .token.file)) }}
{{- fail (printf "metrics.prometheus.token.file is %q, which is not a whole path; write it from / on, such as /var/run/secrets/prometheus/token" .token.file) }}
{{- end }}
{{- range $field, $name := dict "token.secret" .token.secret "ca.configMap" .ca.configMap }}
{{- if and $name (not (regexMatch "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$" $name)) }}
{{- fail (printf "metrics.prometheus.%s is %q, which cannot be a name; write lower-case letters, digits, - and ., such as prometheus" $field $name) }}
{{- end }}
{{- end }}
{{- range $name, $value := .headers }}
{{- if eq (lower $name) "authorization" }}
{{- fail "metrics.prometheus.headers has Authorization, which every reader of the Deployment would see; use metrics.prometheus.token.secret" }}
{{- end }}
{{- if not (and (regexMatch "^[A-Za-z0-9][-A-Za-z0-9]*$" $name) (regexMatch "^[ -~]*$" $value)) }}
{{- fail (printf "metrics.prometheus.headers has %q with %q, which is no header; write a name and plain text, such as X-Scope-OrgID: team-a" $name $value) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
