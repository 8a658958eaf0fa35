/** `livery ca root`: lists, adds, switches and removes the roots of a running `livery ca`. */
import { resolve } from 'node:path'
import { scrub } from '@livery/core/plugin'
import * as v from 'valibot'
import { rootsForm } from './admin-answers.ts'
import { exchange, parseJson } from './admin-client.ts'
import { caRootSocket, type ListedRoot } from './ca-root-socket.ts'
import { EXIT, UsageError } from './exit-code.ts'
import type { GlobalOptions, Terminal } from './terminal.ts'
import { printableJson } from './text-layout.ts'

export type CARootAction = 'list' | 'add' | 'switch' | 'remove'

/** Shortest prefix of a fingerprint, which may be cut as in git. */
const LEAST_ID = 6

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
  terminal.out(json ? `${printableJson(after)}\n` : rootTable(after))
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
  const socket = caRootSocket(directory)
  const { status, body } = await exchange({
    address: { path: socket },
    method,
    path,
    who: `the CA at ${socket}`,
    remedy: `Start it with "livery ca --dir ${directory}", or name its folder with --dir`,
  })
  const answer = parseJson(body)
  if (status === 200 && v.is(rootsForm, answer)) return answer
  throw new Error(typeof answer === 'string' ? scrub(answer) : `the CA at ${socket} answered ${status}`)
}
