/** Bounds what a server may send over HTTP/1.1 before its answer, for every client of the project. */
import type { ClientRequest } from 'node:http'

/** A proxy sends one or two, and no client here uses them. */
const MAX_INTERIM_ANSWERS = 16
const MAX_BYTES = 65_536

/** Ends `request` after too many answers of a status 1xx, which could continue until its deadline, and at a change of protocol. */
export function boundInterimAnswers(request: ClientRequest): ClientRequest {
  let count = 0
  let bytes = 0
  return request
    .on('information', ({ rawHeaders }) => {
      count++
      for (const text of rawHeaders) bytes += text.length
      if ((count <= MAX_INTERIM_ANSWERS && bytes <= MAX_BYTES) || request.destroyed) return
      request.destroy(
        new Error(
          `the server sent more than ${MAX_INTERIM_ANSWERS} interim answers (1xx) or ${MAX_BYTES} bytes of them`,
        ),
      )
    })
    .on('upgrade', (_, socket) => {
      socket.destroy()
      // Node reports nothing more of the request after this.
      request.emit('error', new Error('the server changed to another protocol (101)'))
    })
}
