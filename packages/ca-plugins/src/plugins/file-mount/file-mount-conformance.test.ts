/** The conformance kit, with the roots in one file for all, and with those in the folder of each identity. */
import { join } from 'node:path'
import { describe, test } from 'node:test'
import type { CAClient } from '@livery/core/plugin'
import { temporaryFolder } from '@livery/test-support'
import { replaceFile, writeSet } from '../../../test/mounted-files.ts'
import { CA_SWITCHES, type ConformanceSetup, suite } from '../../conformance/index.ts'
import { FileMountClient } from './client.ts'
import { mountOf } from './config.ts'
import { fileMount } from './index.ts'

const reason = 'files do not talk to a CA'
const without = Object.fromEntries(CA_SWITCHES.filter(name => name !== 'root-rotation').map(name => [name, reason]))

/** Writes the files, and again as the CA changes. */
class Writer {
  readonly folder: string
  written: Promise<void>
  readonly #setup: ConformanceSetup

  constructor(folder: string, setup: ConformanceSetup) {
    this.folder = folder
    this.#setup = setup
    this.#writeRoots()
    this.written = this.#writeSets()
    const subscription = setup.ca.subscribe(({ kind }) => {
      this.#writeRoots()
      if (kind === 'certificates') this.written = this.#writeSets()
    })
    setup.after(() => subscription[Symbol.dispose]())
  }

  folderOf(identity: string): string {
    return join(this.folder, identity.slice(identity.lastIndexOf('/')))
  }

  #writeRoots(): void {
    replaceFile(join(this.folder, 'all/root-cert.pem'), this.#setup.ca.trustBundle().join(''))
    for (const identity of this.#setup.identities)
      replaceFile(join(this.folderOf(identity), 'root-cert.pem'), this.#setup.ca.trustBundle().join(''))
  }

  async #writeSets(): Promise<void> {
    const { ca, identities } = this.#setup
    for (const identity of identities) writeSet(this.folderOf(identity), await ca.bring(identity))
  }
}

/** Each call waits until the writer is done, so that it reads the current files. */
function onceWritten(client: FileMountClient, writer: Writer): CAClient {
  return {
    async issue(request) {
      await writer.written
      return client.issue(request)
    },
    ...(client.trustBundle && { trustBundle: client.trustBundle }),
    subscribe: listener => client.subscribe(listener),
    [Symbol.asyncDispose]: () => client[Symbol.asyncDispose](),
  }
}

interface Layout {
  readonly roots: string
  readonly rootsFor: 'identity' | 'trust-domain'
}

async function create(setup: ConformanceSetup, { roots, rootsFor }: Layout): Promise<CAClient> {
  const folder = temporaryFolder(setup)
  const writer = new Writer(folder, setup)
  await writer.written
  const mount = mountOf({ layout: 'istio', folder: join(folder, '{name}'), roots, rootsFor })
  return onceWritten(new FileMountClient(setup.context, mount), writer)
}

const { capabilities } = fileMount

describe('with the roots in one file', { concurrency: 1 }, () => {
  const config = { layout: 'istio', folder: '/certs/{name}', roots: '../all/root-cert.pem' } as const
  const check = () => fileMount.check?.(config, new Set())
  suite({
    test,
    capabilities,
    without,
    check,
    create: setup => create(setup, { roots: '../all/root-cert.pem', rootsFor: 'trust-domain' }),
  })
})

for (const [rootsFor, roots] of [
  ['trust-domain', 'push'],
  ['identity', 'none'],
] as const)
  describe(`with the roots of each identity beside it, for the ${rootsFor}`, { concurrency: 1 }, () => {
    suite({
      test,
      capabilities: { ...capabilities, roots },
      without,
      async create(setup) {
        const client = await create(setup, { roots: 'root-cert.pem', rootsFor })
        // Folders are known from the first request on, which the agent makes for each identity as it starts.
        for (const identity of setup.identities.slice(0, 1))
          await client.issue({ identity, ttlSeconds: 0, signal: new AbortController().signal, csr: neverAsked })
        return client
      },
    })
  })

async function neverAsked(): Promise<never> {
  throw new Error('the plugin asked for a CSR')
}
