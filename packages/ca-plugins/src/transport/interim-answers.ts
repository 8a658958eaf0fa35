/** The bound of what a server may send over HTTP/1.1 before its answer: of every client of the project. */
import type { ClientRequest } from 'node:http'

/** A proxy sends one or two, and nobody here has a use for them. */
const MAX_INTERIM_ANSWERS = 16
const MAX_BYTES = 65_536

/** Ends `request` at too many answers of a status 1xx, which would go on until its deadline, and at one that changes the protocol. */
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
      // From here on Node reports nothing more of it.
      request.emit('error', new Error('the server changed to another protocol (101)'))
    })
}
