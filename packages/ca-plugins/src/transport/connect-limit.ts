/** Limits an attempt to connect: TCP alone tries for two minutes. */
import { isIP, type Socket } from 'node:net'
import { after, type Clock } from '@livery/core/plugin'

/** The shortest that gRPC gives a connection, with name resolution and TLS: https://github.com/grpc/grpc/blob/master/doc/connection-backoff.md */
export const DIAL_MS = 20_000
/** Three SYNs once the name is resolved. After a network cut, a new attempt comes sooner than TCP's fourth SYN. */
const TCP_MS = 4_000

/** Ends `socket` with an error if the host does not accept its TCP connection within 4 s after its name was resolved. */
export function limitConnecting(socket: Socket, host: string, clock: Clock): Disposable {
  let timer: Disposable | undefined
  const start = () => {
    timer = after(clock, TCP_MS, () =>
      socket.destroy(new Error(`connect ETIMEDOUT ${host}: no answer within ${TCP_MS} ms`)),
    )
  }
  const end = () => {
    socket.off('lookup', start).off('connect', end)
    timer?.[Symbol.dispose]()
  }
  socket.once('connect', end)
  if (isIP(host)) start()
  else socket.once('lookup', start)
  return { [Symbol.dispose]: end }
}
