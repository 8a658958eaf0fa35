/** Starts the measured programs: the test CA, Livery as its users start it, Livery's parts on command, and Istio's agent. */

import { symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { freePort } from '@livery/test-support'
import type { Bench } from './bench.ts'
import { accepts } from './listeners.ts'
import { pathOf } from './programs.ts'
import type { Running, Workdir } from './workdir.ts'
import { programOf, THIS_COPY } from './working-copy.ts'

export interface CA {
  readonly server: Running
  readonly address: string
  /** The file with its root. */
  readonly root: string
}

export interface SdsProcess {
  readonly server: Running
  readonly socket: string
  /** The name that clients request, and the SAN of the answer; `{i}` is a number below `identities`. */
  readonly secret: string
  readonly san: string
  readonly identities: number
}

/** The identities of Livery, and the pattern that allows them all. */
export const LOAD_IDENTITY = 'spiffe://cluster.local/ns/load/sa/sa-{i}'
const ALL_IDENTITIES = 'spiffe://cluster.local/ns/load/sa/*'

export async function startCA({ programs }: Pick<Bench, 'programs'>, workdir: Workdir): Promise<CA> {
  const folder = join(workdir.folder, 'ca')
  const args = ['--listen', '127.0.0.1:0', '--tls-dir', folder]
  const { server, answer: address } = await workdir.start(
    pathOf(programs, 'neutralca'),
    args,
    ({ output }) => /^READY (\S+)$/m.exec(output())?.[1],
  )
  return { server, address, root: join(folder, 'root.pem') }
}

/** Istio's agent, with one identity; a connection to its socket shows that it serves. */
export async function startIstioAgent(
  { programs }: Bench,
  workdir: Workdir,
  ca: CA,
  name = 'istio',
): Promise<SdsProcess> {
  const socket = join(workdir.folder, `${name}.sock`)
  const args = ['--uds', socket, '--ca', ca.address, '--ca-root', ca.root, '--ecdsa', '--ttl', '24h', '--log', 'none']
  const { server } = await workdir.start(pathOf(programs, 'sdspeer'), args, () => accepts(socket))
  return { server, socket, secret: 'default', san: 'spiffe://cluster.local/ns/default/sa/sa-0', identities: 1 }
}

/** Files for `livery run`, beside a link `livery` to the program. */
interface LiveryFiles {
  readonly config: string
  readonly socket: string
  readonly admin: string
}

/** `copy`: the working copy whose program runs. */
export async function writeLiveryFiles(
  workdir: Workdir,
  ca: CA,
  identities: number,
  copy = THIS_COPY,
): Promise<LiveryFiles> {
  const name = `livery-${identities}`
  const socket = join(workdir.folder, `${name}.sock`)
  const admin = `127.0.0.1:${await freePort()}`
  const config = {
    trustDomain: 'cluster.local',
    ca: { plugin: 'citadel', address: ca.address, rootCert: ca.root },
    identities: [{ range: LOAD_IDENTITY.replace('{i}', `{0..${identities - 1}}`) }],
    sockets: [
      {
        path: socket,
        allow: [ALL_IDENTITIES],
        onDemand: true,
        limits: {
          connections: 40_000,
          names: 20_000,
          // A working copy from before this limit has nothing to raise.
          ...(copy === THIS_COPY && {
            perCaller: {
              connections: 20_000,
              requestsPerSecond: 1_000_000,
              identitiesPerMinute: 1_000_000,
              bytes: 2 ** 30,
            },
          }),
        },
      },
    ],
    admin: { address: admin },
    drain: '0s',
    log: { level: 'warn' },
  }
  // JSON is YAML.
  await writeFile(join(workdir.folder, `${name}.yaml`), JSON.stringify(config))
  await symlink(await programOf(copy), join(workdir.folder, 'livery')).catch(ignoreExisting)
  return { config: `${name}.yaml`, socket, admin }
}

/** Starts `livery run`, which is ready when it holds a certificate for each identity. `copy`: see {@link writeLiveryFiles}. */
export async function startLivery(workdir: Workdir, ca: CA, identities: number, copy?: string): Promise<SdsProcess> {
  const { config, socket, admin } = await writeLiveryFiles(workdir, ca, identities, copy)
  const { server } = await workdir.start('./livery', ['run', '--config', config], () => isReady(admin), {
    // Each poll looks at every identity.
    pollMs: 500,
  })
  return { server, socket, secret: LOAD_IDENTITY, san: LOAD_IDENTITY, identities }
}

/** The options of packages/agent/bin/livery.js without --disable-sigusr1, which would block the signal. */
const NODE_OPTIONS = ['--conditions=@livery/source', '--max-semi-space-size=8', '--min-semi-space-size=8']

/** The setup of a process of Livery's parts: see `prompted-server.ts`. */
interface Prompts {
  readonly identities: number
  /** The number of identities that a SIGUSR2 renews. */
  readonly renew: number
}

/** Livery's parts in a process that renews on SIGUSR2 and gets a new root on SIGUSR1, as Istio's agent does here. */
export async function startPromptedLivery(
  workdir: Workdir,
  ca: CA,
  { identities, renew }: Prompts,
): Promise<SdsProcess> {
  const socket = join(workdir.folder, `prompted-${identities}.sock`)
  const program = fileURLToPath(new URL('prompted-server.ts', import.meta.url))
  const options = { socket, ca: ca.address, root: ca.root, identities, renew }
  const args = Object.entries(options).map(([name, value]) => `--${name}=${value}`)
  const { server } = await workdir.start(
    process.execPath,
    [...NODE_OPTIONS, '--expose-gc', program, ...args],
    ({ output }) => output().includes('READY') || undefined,
  )
  return { server, socket, secret: LOAD_IDENTITY, san: LOAD_IDENTITY, identities }
}

async function isReady(admin: string): Promise<true | undefined> {
  const response = await fetch(`http://${admin}/healthz/ready?strict`).catch(() => undefined)
  await response?.arrayBuffer()
  return response?.ok || undefined
}

function ignoreExisting(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EEXIST') throw error
}
