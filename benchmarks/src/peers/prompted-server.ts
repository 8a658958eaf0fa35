/** The program of the push rows: SecretManager and SDS server over Istio's CA protocol. It pushes on a signal. */
import { readFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import { citadel } from '@livery/ca-plugins/citadel'
import { connectionTls } from '@livery/ca-plugins/connection'
import { CertificateAuthority } from '@livery/ca-plugins/embedded'
import { SecretManager } from '@livery/core'
import { type SpiffeId, SystemClock, splitCertificates } from '@livery/core/plugin'
import { createKeyGenerator, nativeCertificateVerifier } from '@livery/native-keygen'
import { createSdsServer } from '@livery/sds-server'
import { PromptedClient } from '../prompted-client.ts'

const { values } = parseArgs({
  options: {
    socket: { type: 'string', default: '' },
    /** `host:port` of the CA, and the file with its root. */
    ca: { type: 'string', default: '' },
    root: { type: 'string', default: '' },
    identities: { type: 'string', default: '1' },
    /** The number of identities that a SIGUSR2 renews. */
    renew: { type: 'string', default: '1' },
  },
})

const clock = new SystemClock()
const identities = Array.from(
  { length: Number(values.identities) },
  (_, index): SpiffeId => `spiffe://cluster.local/ns/load/sa/sa-${index}`,
)
const say = (message: string): void => void process.stderr.write(`${message}\n`)
const log = { debug: say, info: say, warn: say, error: say }
const client = await citadel.create(
  {
    clock,
    trustDomain: 'cluster.local',
    log,
    metrics: { counter: () => ({ add: () => {} }) },
    tls: connectionTls({ rootCert: values.root, log }),
  },
  { address: values.ca, impersonate: false },
)
const ca = new PromptedClient(client, splitCertificates(await readFile(values.root, 'utf8')))
const manager = new SecretManager({
  ca,
  keyGenerator: createKeyGenerator().generator,
  ...(nativeCertificateVerifier && { verifier: nativeCertificateVerifier }),
  clock,
  trustDomain: 'cluster.local',
})
for (const identity of identities) manager.add(identity)
const signal = new AbortController().signal
await Promise.all(identities.map(identity => manager.get({ kind: 'identity', identity }, { signal })))
await createSdsServer({
  sockets: [
    {
      path: values.socket,
      allow: ['spiffe://cluster.local/ns/load/sa/*'],
      limits: {
        connections: 40_000,
        names: 20_000,
        perCaller: { connections: 20_000, requestsPerSecond: 1_000_000, bytes: 2 ** 30 },
      },
    },
  ],
  source: manager,
  clock,
  drainMs: 0,
})

let nextRoot = await makeRoot()
process.on('SIGUSR2', () => ca.renew(identities.slice(0, Number(values.renew))))
process.on('SIGUSR1', () => {
  ca.addRoot(nextRoot)
  // The root is made ahead, so that the measurement does not include it.
  void makeRoot().then(root => {
    nextRoot = root
  })
})
process.on('SIGHUP', () => {
  // The second collection frees weakly held objects.
  globalThis.gc?.()
  globalThis.gc?.()
  const { heapUsed, external } = process.memoryUsage()
  process.stdout.write(`HEAP ${heapUsed + external}\n`)
})
process.stdout.write('READY\n')

async function makeRoot(): Promise<string> {
  const authority = await CertificateAuthority.open({ trustDomain: 'cluster.local', clock })
  const [root] = authority.roots()
  if (!root) throw new Error('a new CA has no root')
  return root.pem
}
