/** The workloads of the soak, in a separate process: a stream for each name, which stays open and checks every secret. */
import type * as grpc from '@grpc/grpc-js'
import { nodeCertificateVerifier } from '@livery/core'
import { nativeCertificateVerifier } from '@livery/native-keygen'
import { discoveryRequest, readResponse } from './discovery-messages.ts'
import { connect, streamSecrets } from './secret-stream.ts'
import { SecretWatch, type WatchReport } from './secret-watch.ts'

export interface ClientOrder {
  readonly socket: string
  readonly names: readonly string[]
  readonly connections: number
}

/** Sent once a second. */
export interface ClientReport extends WatchReport {
  readonly cpuSeconds: number
}

const ROOTS = 'ROOTCA'
const REPORT_EVERY_MS = 1_000
const watch = new SecretWatch(nativeCertificateVerifier ?? nodeCertificateVerifier)

process.once('disconnect', () => process.exit())
process.once('message', (order: ClientOrder) => {
  setInterval(() => {
    const now = Date.now()
    watch.scan(now)
    const { user, system } = process.cpuUsage()
    process.send?.({ ...watch.report(now), cpuSeconds: (user + system) / 1e6 } satisfies ClientReport)
  }, REPORT_EVERY_MS)
  for (let index = 0; index < order.connections; index++) openConnection(order, index)
})

/** The roots come first: every later secret is checked against them at once. */
function openConnection({ socket, names, connections }: ClientOrder, index: number): void {
  const client = connect(socket)
  let hasRoots = false
  openStream(client, ROOTS, () => {
    if (hasRoots) return
    hasRoots = true
    for (let name = index; name < names.length; name += connections) openStream(client, names[name] ?? '', () => {})
  })
}

function openStream(client: grpc.Client, name: string, onSecret: () => void): void {
  const stream = streamSecrets(client)
  stream.on('data', (bytes: Buffer) => {
    try {
      const { version, nonce, secrets } = readResponse(bytes)
      stream.write(discoveryRequest(name, { version, nonce }))
      for (const secret of secrets) watch.take(secret, name, Date.now())
      if (secrets.length > 0) onSecret()
    } catch (error) {
      watch.fail(`${name}: ${error instanceof Error ? error.message : String(error)}`)
    }
  })
  stream.on('error', error => watch.fail(`${name}: its stream ended: ${error.message}`))
  stream.on('end', () => watch.fail(`${name}: its stream was closed by the agent`))
  stream.write(discoveryRequest(name))
}
