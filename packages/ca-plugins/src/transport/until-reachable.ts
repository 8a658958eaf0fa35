/** Waits until a server accepts connections: an HTTP client connects only with a request, a gRPC channel on its own. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { after, type Clock, sleep } from '@livery/core/plugin'
import { DIAL_MS, limitConnecting } from './connect-limit.ts'
import type { Outage } from './outage.ts'

interface Reach {
  readonly clock: Clock
  /** How long to wait at most, milliseconds. */
  readonly ms: number
  readonly signal: AbortSignal
  /** The server's outage, kept from one wait to the next. */
  readonly outage: Outage
}

/**
 * Resolves once a TCP connection to the host of `url` is accepted, or when the time is up: the request that follows finds the
 * reason. Rejects with the signal's reason.
 */
export async function untilReachable(url: URL, { clock, ms, signal, outage }: Reach): Promise<void> {
  const until = clock.now() + ms
  for (;;) {
    signal.throwIfAborted()
    const leftMs = until - clock.now()
    if (leftMs <= 0) return
    if (await accepts(url, { clock, ms: Math.min(leftMs, DIAL_MS), signal })) return outage.ended()
    outage.failed()
    const pauseMs = Math.min(outage.delayMs(), until - clock.now())
    if (pauseMs > 0) await sleep(clock, pauseMs, signal)
  }
}

async function accepts(
  { hostname, port, protocol }: URL,
  { clock, ms, signal }: Omit<Reach, 'outage'>,
): Promise<boolean> {
  const host = hostname.replace(/[[\]]/g, '')
  const socket = connect({ host, port: Number(port) || (protocol === 'https:' ? 443 : 80), signal })
  using _tcp = limitConnecting(socket, host, clock)
  using _deadline = after(clock, ms, () => socket.destroy())
  try {
    // Rejects on an error; an abandoned attempt closes without one.
    await Promise.race([once(socket, 'connect'), once(socket, 'close')])
    return !socket.destroyed
  } catch {
    return false
  } finally {
    socket.on('error', () => {}).destroy()
  }
}
