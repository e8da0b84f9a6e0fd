{{- define "tandem.name" -}}
{{ .Release.Name | trunc 54 | trimSuffix "-" }}-operator
{{- end }}

{{- define "tandem.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "tandem.name" .) }}
{{- end }}

{{- define "tandem.selector" -}}
app.kubernetes.io/name: tandem
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "tandem.labels" -}}
{{ include "tandem.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "tandem.head" -}}
name: {{ include "tandem.name" . }}
namespace: {{ .Release.Namespace }}
labels: {{- include "tandem.labels" . | nindent 2 }}
{{- end }}
