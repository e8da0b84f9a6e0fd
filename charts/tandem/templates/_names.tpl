{{- /* With "-metrics" it names a Service: no dots, a letter first, 63 characters at most. */}}
{{- define "tandem.name" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride }}
{{- else -}}
{{- $release := regexReplaceAll "^([0-9])" (replace "." "-" .Release.Name) "tandem-${1}" -}}
{{- $end := .Values.nameOverride | default "operator" -}}
{{ $release | trunc (int (sub 54 (len $end))) | trimSuffix "-" }}-{{ $end }}
{{- end }}
{{- end }}

{{- define "tandem.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "tandem.name" .) }}
{{- end }}

{{- /* The namespaces served, sorted and each once, as the operator sees them. */}}
{{- define "tandem.namespaces" -}}
{{ .Values.watchNamespaces | default list | sortAlpha | uniq | toJson }}
{{- end }}

{{- /* One Lease for each set of pools: installations for several namespaces do not wait for each other.
The operator reckons the same. */}}
{{- define "tandem.lease" -}}
{{- $namespaces := include "tandem.namespaces" . | fromJsonArray -}}
tandem-operator
{{- if eq (len $namespaces) 1 }}-{{ index $namespaces 0 }}
{{- else if $namespaces }}-{{ join "," $namespaces | sha256sum | trunc 10 }}
{{- end }}
{{- end }}

{{- define "tandem.selector" -}}
app.kubernetes.io/name: tandem
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: operator
{{- end }}

{{- /* Labels of the chart win over those of the values: NetworkPolicies of pools select by them. */}}
{{- define "tandem.labels" -}}
{{- $own := include "tandem.selector" . | fromYaml }}
{{- $_ := set $own "app.kubernetes.io/version" (.Chart.AppVersion | replace "+" "_") }}
{{- $_ := set $own "app.kubernetes.io/managed-by" .Release.Service }}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_")) }}
{{- merge $own (.Values.commonLabels | default dict) | toYaml }}
{{- end }}

{{- /* Metadata of an object: a list of the root and the name, and of a namespace if it is in one. */}}
{{- define "tandem.metadata" -}}
{{- $root := index . 0 -}}
name: {{ index . 1 | quote }}
{{- if gt (len .) 2 }}
namespace: {{ index . 2 | quote }}
{{- end }}
labels: {{- include "tandem.labels" $root | nindent 2 }}
{{- with $root.Values.commonAnnotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "tandem.head" -}}
{{ include "tandem.metadata" (list . (include "tandem.name" .) .Release.Namespace) }}
{{- end }}
