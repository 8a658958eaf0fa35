/** A process that takes over the socket given as its argument, and says so to its parent. */

import { createSdsServer } from '../src/sds-server.ts'
import { MemorySource } from './memory-source.ts'
import { WEB } from './running-server.ts'

const source = await MemorySource.create(WEB)
const server = await createSdsServer({
  sockets: [{ path: process.argv[2] ?? '', allow: [WEB] }],
  source,
  clock: source.clock,
  takeover: true,
  drainMs: 0,
})
process.send?.('listening')
process.once('message', async () => {
  const closed = server.close()
  while (!(await Promise.race([closed.then(() => true), source.clock.advance(1_000).then(() => false)])));
  process.disconnect()
})
