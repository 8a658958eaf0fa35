{{- define "livery.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "livery.fullname" -}}
{{- $name := include "livery.name" . -}}
{{- default (ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name)) .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "livery.selectorLabels" -}}
app.kubernetes.io/name: {{ include "livery.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "livery.labels" -}}
{{ include "livery.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "livery.serviceAccountName" -}}
{{- default (ternary (include "livery.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "livery.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ default .Chart.AppVersion $image.tag }}
{{- end -}}
{{- end -}}

{{/* The port of config.health.address. */}}
{{- define "livery.healthPort" -}}
{{- regexFind "[0-9]+$" .Values.config.health.address -}}
{{- end -}}

{{/* "true" where the CA, or one of a list of CAs, is kubernetes-csr. */}}
{{- define "livery.asksForCertificateSigningRequests" -}}
{{- $ca := default dict .Values.config.ca -}}
{{- range concat (list $ca) (default list $ca.cas) -}}
{{- if eq (toString .plugin) "kubernetes-csr" }}true{{ end -}}
{{- end -}}
{{- end -}}

{{/* The rules of the ClusterRole; empty if the agent asks the API server for nothing. */}}
{{- define "livery.rules" -}}
{{- if kindIs "map" .Values.config.kubernetes }}
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch]
{{- end }}
{{- if include "livery.asksForCertificateSigningRequests" . }}
- apiGroups: [certificates.k8s.io]
  resources: [certificatesigningrequests]
  verbs: [create, list, watch]
{{- end }}
{{- if .Values.rbac.tokenRequests }}
- apiGroups: [""]
  resources: [serviceaccounts/token]
  verbs: [create]
{{- end }}
{{- end -}}

{{/* Refuses values that the schema cannot compare. */}}
{{- define "livery.check" -}}
{{- $config := .Values.config -}}
{{- if not (kindIs "map" $config.ca) -}}
{{- fail "config.ca is missing: write the CA of your identities, such as config.ca.plugin citadel with its address. examples/ beside values.yaml has whole ones" -}}
{{- end -}}
{{- if not (include "livery.healthPort" .) -}}
{{- fail (printf "config.health.address %q has no port: write one such as 0.0.0.0:15121, which the probes ask" $config.health.address) -}}
{{- end -}}
{{- with .Values.updateStrategy -}}
{{- if eq (eq (toString .maxUnavailable) "0") (eq (toString .maxSurge) "0") -}}
{{- fail (printf "updateStrategy has maxUnavailable %v and maxSurge %v: exactly one of them must be 0" .maxUnavailable .maxSurge) -}}
{{- end -}}
{{- if and (ne (toString .maxSurge) "0") (not (dig "sds" "takeover" false $config)) -}}
{{- fail "updateStrategy.maxSurge needs config.sds.takeover: true, without which the new agent waits for the sockets of the old one and is not ready" -}}
{{- end -}}
{{- end -}}
{{- $store := dig "store" "directory" "" $config -}}
{{- if ne $store .Values.storeDirectory -}}
{{- fail (printf "config.store.directory is %q and storeDirectory %q: set both to one folder of the node, since the root of the container is read-only, or neither" $store .Values.storeDirectory) -}}
{{- end -}}
{{- if not .Values.hostPID -}}
{{- range default list $config.sockets -}}
{{- if and (kindIs "map" .) .identify -}}
{{- fail (printf "config.sockets: %v identifies pods, which needs hostPID: true" .path) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
