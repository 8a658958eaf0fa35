#!/bin/sh
# Builds SPIRE's server and agent of the release in go.mod into a folder: ./build.sh DIR. Needs Go, a C compiler for SQLite, and the network.
set -eu
out=$(cd "$1" && pwd)
cd "$(dirname "$0")"
CGO_ENABLED=1 go build -trimpath -ldflags '-s -w' -o "$out/" tool
