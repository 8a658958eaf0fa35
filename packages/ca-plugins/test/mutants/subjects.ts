/** Three plugins with the servers that they ask, and the mutants of their sources. */
import { readFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { pipeline, Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import type { CAClient, CAContext } from '@livery/core/plugin'
import { temporaryFolder } from '@livery/test-support'
import type { ConformanceSetup, FakeCA, FakeCAAnswer } from '../../src/conformance/index.ts'
import type { SuiteOptions } from '../../src/conformance/suite.ts'
import { citadel } from '../../src/plugins/citadel/index.ts'
import { CALL_TIMEOUT_MS } from '../../src/transport/call-timeout.ts'
import { startIstioStandIn } from '../istio-stand-in.ts'
import { JsonCaServer, type Refusals, replyOf, retryAfter } from '../json-ca-server.ts'
import { plugin as program } from './program-plugin.ts'

/** A replacement in a source: the text is in it once. */
export type Change = readonly [from: string, to: string]

export interface MutableSubject {
  /** The source that is mutated. */
  readonly source: URL
  /** The suite of the plugin whose source is at `url`. */
  readonly suiteOf: (url: string) => Omit<SuiteOptions, 'test'>
}

const mutants = new Map<string, readonly Change[]>()
registerHooks({
  load(url, context, next) {
    const changes = mutants.get(url)
    if (!changes) return next(url, context)
    let source = readFileSync(fileURLToPath(url), 'utf8')
    for (const [from, to] of changes) {
      if (source.split(from).length !== 2) throw new Error(`Cannot mutate ${url}: it has not once ${from}`)
      source = source.replace(from, () => to)
    }
    return { format: 'module-typescript', source, shortCircuit: true }
  },
})

/** The address of `source` with these changes. */
export function mutantOf(source: URL, changes: readonly Change[]): string {
  const url = `${source.href}?mutant=${mutants.size}`
  mutants.set(url, changes)
  return url
}

const REFUSALS: Refusals = {
  'invalid-csr': [400, 'invalid-csr'],
  unauthenticated: [401, 'unauthenticated'],
  denied: [403, 'denied'],
  'ttl-too-long': [422, 'ttl-too-long'],
  'rate-limited': [429, 'rate-limited'],
  unavailable: [503, 'unavailable'],
}

async function startHttps(ca: FakeCA, { clock }: CAContext): Promise<JsonCaServer> {
  return await JsonCaServer.startStandIn({ ca, clock, tls: await ca.serverCertificate() }, async call => {
    const roots = ca.trustBundle()
    if (call.path === '/roots') return { status: 200, body: { roots } }
    const token = call.headers.authorization?.replace('Bearer ', '') ?? ''
    const { csr, ttlSeconds } = call.json
    const answered = await ca.answer({ csr: String(csr), ttlSeconds: Number(ttlSeconds), token })
    return replyOf(answered, {
      issued: ({ chain, truncated }) => ({ status: 200, body: { chain, roots }, truncated }),
      refused(refused) {
        const [status] = REFUSALS[refused.code]
        return { status, body: refused.message, headers: retryAfter(refused) }
      },
    })
  })
}

/** The server keeps its certificate through a rotation, and so the client its root. */
function tlsOf(ca: FakeCA): () => Promise<{ readonly roots: Buffer }> {
  const roots = Buffer.from(ca.trustBundle().join(''))
  return async () => ({ roots })
}

async function example(url: string, { ca, context, after }: ConformanceSetup): Promise<CAClient> {
  const server = await startHttps(ca, context)
  after(() => server[Symbol.asyncDispose]())
  const { plugin } = await import(url)
  return plugin.create({ ...context, tls: tlsOf(ca) }, { url: server.address, timeout: 10_000 })
}

async function grpc(url: string, { ca, context, after }: ConformanceSetup): Promise<CAClient> {
  const server = await startIstioStandIn(ca)
  after(() => server[Symbol.asyncDispose]())
  const [host = '', port] = server.address.split(':')
  const { CitadelClient } = await import(url)
  const config = { impersonate: false, address: server.address }
  const target = { address: server.address, host, port: Number(port), plaintext: false }
  return new CitadelClient(config, target, { ...context, tls: tlsOf(ca) })
}

/** By the status that the program ends with. */
const DIES = 9

async function serveProgram(ca: FakeCA, socket: Socket): Promise<void> {
  socket.on('error', () => {}).setEncoding('utf8')
  let input = ''
  socket.on('data', text => {
    input += text
  })
  await new Promise(resolve => socket.once('end', resolve))
  const answer = await ca.answer(JSON.parse(input))
  if (!socket.destroyed) pipeline(Readable.from(outputOf(answer)), socket, () => {})
}

function* outputOf(answer: FakeCAAnswer): Iterable<string> {
  switch (answer.kind) {
    case 'issued': {
      const json = JSON.stringify({ chain: answer.chain })
      return yield `0${answer.truncated ? json.slice(0, json.length / 2) : json}`
    }
    case 'refused':
      return yield `${STATUSES.indexOf(answer.code) + 1}${answer.message}`
    case 'garbage':
      return yield `0${answer.text}`
    case 'endless':
      yield '0'
      return yield* answer.pieces
    default:
      return yield String(DIES)
  }
}

const STATUSES = ['invalid-csr', 'unauthenticated', 'denied', 'ttl-too-long', 'rate-limited', 'unavailable']

async function programOf(url: string, { ca, context, after }: ConformanceSetup): Promise<CAClient> {
  const path = join(temporaryFolder({ after }), 'ca.sock')
  const sockets = new Set<Socket>()
  const server = createServer({ allowHalfOpen: true }, socket => {
    sockets.add(socket.once('close', () => sockets.delete(socket)))
    void serveProgram(ca, socket)
  })
  await new Promise<void>(resolve => server.listen(path, resolve))
  after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const { plugin } = await import(url)
  const command = [process.execPath, fileURLToPath(new URL('program.ts', import.meta.url)), path]
  return plugin.create(context, { command, timeout: 10_000 })
}

const exampleSource = new URL('../../../../examples/ca-plugin/index.ts', import.meta.url)

export const SUBJECTS = {
  https: {
    source: exampleSource,
    suiteOf: url => ({
      capabilities: { roots: 'poll', ttl: 'honoured', san: 'csr', keyTypes: ['ecdsa-p256'] },
      create: setup => example(url, setup),
      timeoutMs: 10_000,
    }),
  },
  grpc: {
    source: new URL('../../src/plugins/citadel/client.ts', import.meta.url),
    suiteOf: url => ({
      capabilities: citadel.capabilities,
      create: setup => grpc(url, setup),
      timeoutMs: CALL_TIMEOUT_MS,
      without: { endless: 'a message of gRPC begins with its length' },
    }),
  },
  program: {
    source: new URL('program-plugin.ts', import.meta.url),
    suiteOf: url => ({
      capabilities: program.capabilities,
      create: setup => programOf(url, setup),
      timeoutMs: 10_000,
      without: { load: 'each call starts a program', 'retry-after': 'a status has no room for it' },
    }),
  },
} as const satisfies Readonly<Record<string, MutableSubject>>
