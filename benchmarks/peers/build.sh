#!/bin/sh
# Builds the programs that Livery is measured against, and Istio's pilot-agent and istiod for tests, into a folder: ./build.sh [DIR], by default .cache/peers of the repository.
# Needs Go, and on the first run the network, for modules. TAGS are those with which Istio builds its own agent; istiod has others.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:-$here/../../.cache/peers}"
out=$(cd "${1:-$here/../../.cache/peers}" && pwd)
TAGS=agent,disable_pgv,grpcnotrace,retrynotrace
export CGO_ENABLED=0

(cd "$here/neutralca" && go build -trimpath -o "$out/neutralca" .)
(cd "$here/sdsload" && go build -trimpath -o "$out/sdsload" .)
(cd "$here/istio" && go build -trimpath -tags "$TAGS" -ldflags '-s -w' -o "$out/sdspeer" ./sdspeer)
(cd "$here/istio" && go test -c -trimpath -tags "$TAGS" -ldflags '-s -w' -o "$out/istio-gencsr.test" ./gencsr)
(cd "$here/istio" && go build -trimpath -tags "$TAGS" -ldflags '-s -w' -o "$out/pilot-agent" istio.io/istio/pilot/cmd/pilot-agent)
(cd "$here/istio" && go build -trimpath -tags vtprotobuf,disable_pgv -ldflags '-s -w' -o "$out/pilot-discovery" istio.io/istio/pilot/cmd/pilot-discovery)
istio=$(cd "$here/istio" && go list -m -f '{{.Dir}}' istio.io/istio)
install -m 644 "$istio/tools/packaging/common/envoy_bootstrap.json" "$out/envoy_bootstrap_tmpl.json"
echo "LIVERY_PEERS=$out"
