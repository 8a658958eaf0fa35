/**
 * A hostile client of the admin endpoint, in its own process: `node admin-attacker.ts TARGET WAY COUNT [PATH]`.
 * TARGET is host:port or the path of a UNIX socket. It prints `attacking` once its connections are open.
 */
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

const [target = '', way = '', count = '1', path = '/'] = process.argv.slice(2)
const REQUEST = `GET ${path} HTTP/1.1\r\nhost: localhost\r\n\r\n`
let answers = 0
let closed = 0

function open(): Socket {
  const [host, port] = target.split(':')
  const socket = target.startsWith('/') ? connect(target) : connect(Number(port), host)
  socket.on('error', () => {})
  return socket
}

/** One client's use of its connection; it opens the next one when that one is closed, unless it is idle. */
const WAYS: Readonly<Record<string, (socket: Socket) => void>> = {
  /** Asks and reads, as fast as it is answered. */
  hammer: socket => {
    socket.write(REQUEST)
    socket.on('data', () => {})
  },
  /** Asks, and never reads. */
  deaf: socket => {
    socket.pause()
    socket.write(REQUEST)
  },
  /** Asks, and leaves at once. */
  leave: socket => {
    socket.write(REQUEST, () => socket.destroy())
  },
  /** A thousand requests in one segment, again and again. */
  pipeline: socket => {
    const many = REQUEST.repeat(1_000)
    const write = (): void => {
      while (socket.writable && socket.write(many)) {}
    }
    socket.on('drain', write).on('data', () => {})
    write()
  },
  /** Sends nothing. */
  idle: socket => {
    socket.on('data', () => {})
  },
  /** Sends a header a byte at a time. */
  dribble: socket => {
    socket.write(`GET ${path} HTTP/1.1\r\nhost: localhost\r\n`)
    const timer = setInterval(() => socket.write('x'), 100)
    socket.on('data', () => {}).on('close', () => clearInterval(timer))
  },
}

async function client(isOpen: () => void): Promise<void> {
  for (;;) {
    const socket = open()
    socket.on('data', () => {
      answers++
    })
    socket.once('connect', () => {
      isOpen()
      WAYS[way]?.(socket)
    })
    await new Promise<void>(resolve => socket.once('close', () => resolve()))
    closed++
    isOpen()
    // A refused connection is not to make this client spin.
    await sleep(way === 'idle' || way === 'dribble' ? 1_000 : 0)
  }
}

let opened = 0
for (let index = 0; index < Number(count); index++) {
  let isCounted = false
  void client(() => {
    if (isCounted) return
    isCounted = true
    if (++opened === Number(count)) process.stdout.write('attacking\n')
  })
  // As fast as a queue of connections takes them.
  if (index % 100 === 99) await sleep(5)
}
process.on('SIGTERM', () => {
  process.stdout.write(`${JSON.stringify({ answers, closed })}\n`, () => process.exit(0))
})
