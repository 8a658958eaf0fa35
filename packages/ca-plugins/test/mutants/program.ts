/** A CA's program, as little of it as a test needs: hands its input to the socket of the test, and prints what comes back. */
import { createConnection } from 'node:net'

const DIES = 9

const [, , path = ''] = process.argv
const socket = createConnection(path)
process.stdin.pipe(socket)
// The first byte is the status to end with.
socket.once('data', first => {
  const status = Number(first.subarray(0, 1).toString())
  if (status === DIES) process.kill(process.pid, 'SIGKILL')
  process.exitCode = status
  const output = status === 0 ? process.stdout : process.stderr
  output.on('error', () => process.exit())
  output.write(first.subarray(1))
  socket.pipe(output)
})
