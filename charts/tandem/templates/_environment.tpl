{{- /* Variables of the operator, all but the user's own. */}}
{{- define "tandem.environment" -}}
- name: TANDEM_ROUTER_IMAGE
  value: {{ include "tandem.image" (list . .Values.routerImage) | quote }}
- name: TANDEM_LAUNCHER_IMAGE
  value: {{ include "tandem.image" (list . .Values.launcherImage) | quote }}
- name: TANDEM_ENGINE_CPU_IMAGE
  value: {{ include "tandem.image" (list . .Values.engineImages.cpu) | quote }}
- name: TANDEM_ENGINE_GPU_IMAGE
  value: {{ include "tandem.image" (list . .Values.engineImages.gpu) | quote }}
- name: TANDEM_LOG_LEVEL
  value: {{ .Values.logLevel }}
{{- with .Values.httpProxy }}
- name: HTTP_PROXY
  value: {{ . | quote }}
{{- end }}
{{- with .Values.httpsProxy }}
- name: HTTPS_PROXY
  value: {{ . | quote }}
{{- end }}
{{- if include "tandem.hasProxy" . }}
- name: NO_PROXY
  value: {{ list "localhost" "127.0.0.1" "$(KUBERNETES_SERVICE_HOST)" ".svc" ".cluster.local" .Values.noProxy | compact | join "," | quote }}
{{- end }}
{{- if include "tandem.hasBundle" . }}
# OpenSSL reads it beside the folder of public certificates.
- name: SSL_CERT_FILE
  value: /etc/tandem-ca/ca.crt
{{- end }}
{{- end }}

{{- /* Also one that the user sets by a Secret: it must not come between the operator and the cluster. */}}
{{- define "tandem.hasProxy" -}}
{{- $names := list }}
{{- range .Values.extraEnv }}{{ $names = append $names (upper .name) }}{{ end }}
{{- if or .Values.httpProxy .Values.httpsProxy .Values.noProxy (has "HTTP_PROXY" $names) (has "HTTPS_PROXY" $names) -}}
true
{{- end }}
{{- end }}

{{- define "tandem.hasBundle" -}}
{{- if or .Values.caBundle.configMap .Values.caBundle.secret -}}
true
{{- end }}
{{- end }}
