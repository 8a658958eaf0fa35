/** Waits until a server accepts connections: HTTP clients connect with a request only, where a gRPC channel connects on its own. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { after, type Clock, sleep } from '@livery/core'

/** Between two attempts, as a gRPC channel has it. */
const PAUSE_MS = 500

export interface Reach {
  readonly clock: Clock
  /** How long to wait at most, milliseconds. */
  readonly ms: number
  readonly signal: AbortSignal
}

/**
 * Resolves once a TCP connection to the host of `url` is accepted, or when the time is up: the request that follows knows the
 * reason. Rejects with the signal's reason.
 */
export async function untilReachable(url: URL, { clock, ms, signal }: Reach): Promise<void> {
  const until = clock.now() + ms
  for (;;) {
    signal.throwIfAborted()
    const leftMs = until - clock.now()
    if (leftMs <= 0 || (await accepts(url, { clock, ms: leftMs, signal }))) return
    const pauseMs = Math.min(PAUSE_MS, until - clock.now())
    if (pauseMs > 0) await sleep(clock, pauseMs, signal)
  }
}

async function accepts({ hostname, port, protocol }: URL, { clock, ms, signal }: Reach): Promise<boolean> {
  const socket = connect({
    host: hostname.replace(/[[\]]/g, ''),
    port: Number(port) || (protocol === 'https:' ? 443 : 80),
    signal,
  })
  using _deadline = after(clock, ms, () => socket.destroy())
  try {
    // Rejects on an error; an attempt that is given up ends without one.
    await Promise.race([once(socket, 'connect'), once(socket, 'close')])
    return !socket.destroyed
  } catch {
    return false
  } finally {
    socket.on('error', () => {}).destroy()
  }
}
