/** `livery wait`: ends when a socket serves, for an init container or a script that starts what needs it. */
import { resolve } from 'node:path'
import { waitForSocket } from '@livery/sds-server'
import { parseDuration } from '../schema/duration.ts'
import { EXIT, UsageError } from './exit-code.ts'
import type { GlobalOptions, Terminal } from './terminal.ts'

export interface WaitCommandOptions {
  readonly socket: string
  readonly name?: string
  readonly timeout: string
}

const MAX_TIMEOUT_MS = 86_400_000

export async function waitUntilServed(
  { socket, name, timeout }: WaitCommandOptions,
  { json }: GlobalOptions,
  terminal: Terminal,
): Promise<number> {
  const timeoutMs = parseDuration(timeout) ?? 0
  if (timeoutMs <= 0 || timeoutMs > MAX_TIMEOUT_MS)
    throw new UsageError(`--timeout ${JSON.stringify(timeout)} is not a duration of at most 24h. Write such as 60s`)
  const path = resolve(terminal.workingDirectory, socket)
  await waitForSocket(path, timeoutMs, name)
  const text = name === undefined ? `${path} answers` : `${path} serves ${name}`
  terminal.out(`${json ? JSON.stringify({ socket: path, name }) : text}\n`)
  return EXIT.ok
}
