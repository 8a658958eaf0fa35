/** The metrics of `livery ca`, under the names that istiod's CA uses, so that its dashboards and alerts work. */
import { once } from 'node:events'
import type { Server } from 'node:http'
import type { CertificateAuthority } from '@livery/ca-plugins/embedded'
import type { IstioCaServerEvent } from '@livery/ca-plugins/istio-ca-server'
import { registerRows } from '../observe/metric-rows.ts'
import { Counter, Registry } from '../observe/prometheus.ts'
import { formatHostPort, type HostPort } from '../schema/values.ts'

// An import of node:http loads Node's client of WebSockets, for its exports: 30 ms of CPU.
const { createServer } = process.getBuiltinModule('node:http')

const EVENTS: readonly (readonly [IstioCaServerEvent, help: string])[] = [
  ['csr_count', 'Certificate requests that came.'],
  ['authentication_failure_count', 'Requests whose caller was not authenticated, or may not ask for that identity.'],
  ['csr_parsing_err_count', 'Requests whose CSR could not be read.'],
  ['csr_sign_err_count', 'Requests that were not signed for another reason.'],
  ['success_cert_issuance_count', 'Certificates issued.'],
]

/** Further connections wait: a scrape takes a millisecond. */
const MAX_CONNECTIONS = 64

export class CAMetrics {
  readonly #registry = new Registry()
  readonly #counters = new Map<IstioCaServerEvent, Counter>()

  constructor(authority: Pick<CertificateAuthority, 'roots'>) {
    for (const [event, help] of EVENTS)
      this.#counters.set(event, new Counter({ name: `citadel_server_${event}`, help, registers: [this.#registry] }))
    registerRows(this.#registry, [
      {
        name: 'citadel_server_root_cert_expiry_timestamp',
        help: 'When the root that signs new certificates ends, in seconds since the epoch.',
        read: () => Math.floor((authority.roots().find(({ signing }) => signing)?.notAfter ?? 0) / 1000),
      },
    ])
  }

  count(event: IstioCaServerEvent): void {
    this.#counters.get(event)?.inc()
  }

  /** Serves `GET /metrics`, without TLS or login; port 0 lets the kernel choose. Rejects with an `Error` that names the address. */
  async listen(wanted: HostPort): Promise<AsyncDisposable & { readonly address: string }> {
    const http = createServer({ requestTimeout: 10_000 }, async ({ method, url }, response) => {
      if (method !== 'GET' || url !== '/metrics') {
        response.writeHead(404).end('There is GET /metrics.\n')
        return
      }
      response.writeHead(200, { 'content-type': this.#registry.contentType }).end(await this.#registry.metrics())
    })
    http.maxConnections = MAX_CONNECTIONS
    try {
      http.listen(wanted.port, wanted.host)
      await once(http, 'listening')
    } catch (error) {
      const remedy = 'Stop whatever listens there, or name another address'
      throw new Error(`Cannot serve metrics on ${formatHostPort(wanted)}: ${error}. ${remedy}.`, { cause: error })
    }
    return { address: formatHostPort({ ...wanted, port: portOf(http) }), [Symbol.asyncDispose]: () => close(http) }
  }
}

function portOf(http: Server): number {
  const address = http.address()
  return typeof address === 'object' && address ? address.port : 0
}

async function close(http: Server): Promise<void> {
  http.close()
  http.closeAllConnections()
}
