#!/bin/sh
# Builds ztunnel-manager into a folder: ./build.sh DIR. Needs cargo, protoc and the network; ten minutes, since it is optimised as ztunnel's own program.
# ztunnel's sources are fetched into .cache/ztunnel of the repository, unless they are there.
set -eu
RELEASE=1.30.3
out=$(cd "$1" && pwd)
cd "$(dirname "$0")"
sources=../../../.cache/ztunnel
if [ ! -e "$sources" ]; then
  git clone --quiet --depth 1 --branch "$RELEASE" https://github.com/istio/ztunnel "$sources"
  # BoringSSL is an option that is not used here, and its crate is in no registry.
  sed -i '/boring/d' "$sources/Cargo.toml"
fi
cargo build --release --locked --target-dir "$sources/target"
install "$sources/target/release/ztunnel-manager" "$out"
