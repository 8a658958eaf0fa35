#!/bin/sh
# Builds ztunnel-manager into a folder: ./build.sh DIR. Needs cargo, protoc and the network; ten minutes, since it is optimised as ztunnel's own program.
# ztunnel's sources are fetched into .cache/ztunnel of the repository, unless they are there.
set -eu
RELEASE=1.30.3
out=$(cd "$1" && pwd)
cd "$(dirname "$0")"
sources=../../../.cache/ztunnel
if [ ! -e "$sources" ]; then
  # A clone that fails half way must not be taken for the sources.
  rm -rf "$sources.new"
  git clone --quiet --depth 1 --filter blob:none --no-checkout --branch "$RELEASE" https://github.com/istio/ztunnel "$sources.new"
  # BoringSSL is an option that is not used here: its libraries are in vendor, and its crate is in no registry.
  git -C "$sources.new" sparse-checkout set --no-cone '/*' '!/vendor/'
  git -C "$sources.new" -c advice.detachedHead=false checkout --quiet
  sed -i '/boring/d' "$sources.new/Cargo.toml"
  mv "$sources.new" "$sources"
fi
cargo build --release --locked --target-dir "$sources/target"
install "$sources/target/release/ztunnel-manager" "$out"
