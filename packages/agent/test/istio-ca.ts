/** Istio's certificate service over the embedded CA, for tests: on loopback, for one token. */
import { CertificateAuthority } from '@livery/ca-plugins/embedded'
import { IstioCaServer, staticTokens } from '@livery/ca-plugins/istio-ca-server'
import type { Clock, SpiffeId } from '@livery/core/plugin'

interface TestIstioCa extends AsyncDisposable {
  /** host:port */
  readonly address: string
  /** PEM. */
  readonly root: string
}

/** Issues for `identity` of `cluster.local`, to the bearer of the token `good`; `clock` is that of the CA. */
export async function startIstioCa(clock: Clock, identity: SpiffeId): Promise<TestIstioCa> {
  const authority = await CertificateAuthority.open({ clock, trustDomain: 'cluster.local' })
  const server = await IstioCaServer.start({
    authority,
    authenticators: [staticTokens([{ token: 'good', identity, impersonates: [] }])],
    clock,
    listen: '127.0.0.1:0',
    warn: () => {},
  })
  return {
    address: server.address,
    root: authority.trustBundle().join(''),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  }
}
