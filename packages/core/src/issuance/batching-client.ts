/** Gathers requests that come together into one call of a CA that takes many at once. */
import { type CAClient, CAError, type CertificateRequest, type IssuedCertificate } from '../contract/ca-client.ts'

type IssueBatch = NonNullable<CAClient['issueBatch']>

interface Waiting {
  readonly request: CertificateRequest
  readonly resolve: (issued: IssuedCertificate) => void
  readonly reject: (reason: unknown) => void
}

/** Makes an `issue` of `issueBatch`: all calls of one turn of the event loop go together, at most `size` in a batch. */
export function gatherIntoBatches(issueBatch: IssueBatch, size: number): CAClient['issue'] {
  let waiting: Waiting[] = []
  const send = () => {
    const all = waiting
    waiting = []
    for (let start = 0; start < all.length; start += size) void sendBatch(issueBatch, all.slice(start, start + size))
  }
  return request => {
    if (waiting.length === 0) setImmediate(send)
    const { promise, resolve, reject } = Promise.withResolvers<IssuedCertificate>()
    waiting.push({ request, resolve, reject })
    return promise
  }
}

async function sendBatch(issueBatch: IssueBatch, batch: readonly Waiting[]): Promise<void> {
  try {
    const answers = await issueBatch(batch.map(({ request }) => request))
    for (const [index, { resolve, reject }] of batch.entries()) {
      const answer = answers[index]
      if (answer instanceof Error) reject(answer)
      else if (answer) resolve(answer)
      else reject(new CAError('bad-response', `The CA plugin answered ${answers.length} of ${batch.length} requests`))
    }
  } catch (error) {
    for (const { reject } of batch) reject(error)
  }
}
