{{- /* With "-metrics" it names a Service: no dots, a letter first, 63 characters at most. */}}
{{- define "tandem.name" -}}
{{- $release := regexReplaceAll "^([0-9])" (replace "." "-" .Release.Name) "tandem-${1}" -}}
{{ $release | trunc 46 | trimSuffix "-" }}-operator
{{- end }}

{{- define "tandem.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "tandem.name" .) }}
{{- end }}

{{- /* One Lease for each set of pools: installations for several namespaces do not wait for each other. */}}
{{- define "tandem.lease" -}}
tandem-operator{{ with .Values.watchNamespace }}-{{ . }}{{ end }}
{{- end }}

{{- define "tandem.selector" -}}
app.kubernetes.io/name: tandem
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "tandem.labels" -}}
{{ include "tandem.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | replace "+" "_" | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "tandem.head" -}}
name: {{ include "tandem.name" . }}
namespace: {{ .Release.Namespace | quote }}
labels: {{- include "tandem.labels" . | nindent 2 }}
{{- end }}
