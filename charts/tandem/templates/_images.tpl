{{- /* A whole image: a list of the root and the value. A registry of all images wins over its own. */}}
{{- define "tandem.image" -}}
{{- $root := index . 0 }}
{{- $value := index . 1 }}
{{- if $value.repository }}
{{- $where := list (include "tandem.registry" .) $value.repository | compact | join "/" }}
{{- if $value.digest -}}
{{ $where }}@{{ $value.digest }}
{{- else -}}
{{ $where }}:{{ $value.tag | default ($root.Chart.AppVersion | replace "+" "_") }}
{{- end }}
{{- end }}
{{- end }}

{{- define "tandem.registry" -}}
{{- $global := (index . 0).Values.global | default dict -}}
{{ $global.imageRegistry | default (index . 1).registry | default "" }}
{{- end }}

{{- /* Names of Secrets, each once: those of all charts and those of this one. */}}
{{- define "tandem.pullSecrets" -}}
{{- $names := list }}
{{- range (.Values.global | default dict).imagePullSecrets }}
{{- if kindIs "map" . }}{{ $names = append $names .name }}{{ else }}{{ $names = append $names . }}{{ end }}
{{- end }}
{{- with concat $names (.Values.imagePullSecrets | default list) | uniq -}}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
{{- end }}
