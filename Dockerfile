# The container image: `docker build .` (BuildKit). deploy/image/rootfs.mjs decides what is in it, and packages/agent/test/image.test.ts
# runs what that lays out. Both base images are multi-platform and only build: nothing but the root file system is shipped.
ARG RUST_IMAGE=rust:1.95.0-slim-bookworm@sha256:d7482085ff5b415f84dba5647ae71606650bdef00db7aeb69f4b3d170c3e4082
ARG NODE_IMAGE=node:24-bookworm-slim@sha256:6f7b03f7c2c8e2e784dcf9295400527b9b1270fd37b7e9a7285cf83b6951452d

FROM ${RUST_IMAGE} AS addon
WORKDIR /livery
COPY Cargo.toml Cargo.lock ./
COPY .cargo .cargo
COPY packages/native-keygen packages/native-keygen
# Without cargo's folder in it, the same sources give the same bytes: docs/understand/supply-chain.md.
RUN RUSTFLAGS="--remap-path-prefix=${CARGO_HOME}=/cargo" cargo build --release --locked

FROM ${NODE_IMAGE} AS rootfs
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates libcap2-bin \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /livery
COPY . .
RUN npm ci
COPY --from=addon /livery/target/release/liblivery_native_keygen.so /addon.node
# The Node of the lockfile runs it, and is the one that it lays.
RUN ./node_modules/.bin/node deploy/image/rootfs.mjs --out /rootfs --addon /addon.node

FROM scratch
LABEL org.opencontainers.image.title="livery" \
      org.opencontainers.image.description="X.509 identities of a node's workloads over SDS" \
      org.opencontainers.image.source="https://github.com/livery/livery" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=rootfs /rootfs /
# The last as packages/agent/bin/livery.js sets it, which would start Node a second time.
ENV PATH=/usr/bin LIVERY_CONFIG=/etc/livery/livery.yaml MALLOC_ARENA_MAX=2
USER 15100:15100
ENTRYPOINT ["/usr/bin/livery"]
CMD ["run"]
