/** `livery ca root`: lists, adds, switches and removes the roots of a running `livery ca`. */
import { request } from 'node:http'
import { resolve } from 'node:path'
import { scrub, systemErrorCode } from '@livery/core'
import { caRootSocket, type ListedRoot } from './ca-root-socket.ts'
import { EXIT, UsageError } from './exit-code.ts'
import type { GlobalOptions, Terminal } from './terminal.ts'

export type CARootAction = 'list' | 'add' | 'switch' | 'remove'

/** A fingerprint may be cut, as in git. */
const LEAST_ID = 6
const TIMEOUT_MS = 10_000

/** Resolves with the exit code; rejects if no CA runs in `dir`, or a `UsageError` for a root that it does not have. */
export async function changeCARoots(
  action: CARootAction,
  id: string | undefined,
  dir: string,
  { json }: GlobalOptions,
  terminal: Terminal,
): Promise<number> {
  const directory = resolve(terminal.workingDirectory, dir)
  const before = await ask(directory, 'GET', '/roots')
  const after = action === 'list' ? before : await ask(directory, ...callOf(action, before, id))
  terminal.out(json ? `${JSON.stringify(after, undefined, 2)}\n` : rootTable(after))
  return EXIT.ok
}

function callOf(action: Exclude<CARootAction, 'list'>, roots: readonly ListedRoot[], id = ''): [string, string] {
  switch (action) {
    case 'add':
      return ['POST', '/roots']
    case 'switch':
      return ['POST', `/roots/${findRoot(roots, id)}/switch`]
    case 'remove':
      return ['DELETE', `/roots/${findRoot(roots, id)}`]
  }
}

function findRoot(roots: readonly ListedRoot[], given: string): string {
  const found = given.length < LEAST_ID ? [] : roots.filter(({ id }) => id.startsWith(given.toLowerCase()))
  const [root] = found
  if (root && found.length === 1) return root.id
  const known = roots.map(({ id }) => id).join(', ')
  throw new UsageError(
    `the fingerprint ${JSON.stringify(given)} names no root of this CA alone. Give at least its first ${LEAST_ID} digits; it has ${known}.`,
  )
}

function rootTable(roots: readonly ListedRoot[]): string {
  const lines = roots.map(
    ({ id, signing, notAfter }) =>
      `${id}  ${signing ? 'signs  ' : 'trusted'}  until ${new Date(notAfter).toISOString()}`,
  )
  return `${lines.join('\n')}\n`
}

async function ask(directory: string, method: string, path: string): Promise<readonly ListedRoot[]> {
  const socketPath = caRootSocket(directory)
  const { status, body } = await exchange(socketPath, method, path).catch(cause => {
    const code = systemErrorCode(cause)
    const reason = code === 'ENOENT' || code === 'ECONNREFUSED' ? 'nothing listens there' : describe(cause)
    throw new Error(
      `Cannot ask the CA at ${socketPath}: ${reason}. Start it with "livery ca --dir ${directory}", or name its folder with --dir.`,
      { cause },
    )
  })
  const answer: unknown = JSON.parse(body)
  if (status === 200 && isListed(answer)) return answer
  throw new Error(typeof answer === 'string' ? scrub(answer) : `the CA at ${socketPath} answered ${status}`)
}

async function exchange(
  socketPath: string,
  method: string,
  path: string,
): Promise<{ readonly status: number; readonly body: string }> {
  const { promise, resolve: answered, reject } = Promise.withResolvers<{ status: number; body: string }>()
  const signal = AbortSignal.timeout(TIMEOUT_MS)
  const call = request({ socketPath, method, path, host: 'localhost', agent: false, signal }, response => {
    let body = ''
    response
      .setEncoding('utf8')
      .on('data', (text: string) => {
        body += text
      })
      .on('end', () => answered({ status: response.statusCode ?? 0, body }))
      .on('error', reject)
  })
  call.on('error', reject).end()
  return await promise
}

function isListed(answer: unknown): answer is readonly ListedRoot[] {
  return Array.isArray(answer)
}

function describe(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
