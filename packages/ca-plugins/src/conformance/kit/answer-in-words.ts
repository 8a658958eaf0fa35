/** The CA's answer to a request in words, for the message of a case that fails. */
import type { FakeCAAnswer, FakeCARequest } from './fake-ca.ts'

/** `requiredToken` is the only one that the CA accepts; `undefined`: any. */
export function answerInWords(
  answer: FakeCAAnswer,
  { token }: FakeCARequest,
  requiredToken: string | undefined,
): string {
  switch (answer.kind) {
    case 'issued':
      return `${answer.truncated ? 'half of ' : ''}a chain of ${answer.chain.length} certificates`
    case 'refused':
      return `the refusal "${answer.code}"${requiredToken === undefined || token === requiredToken ? '' : `: ${tokenProblem(token)}`}`
    case 'pending':
      return 'a ticket'
    case 'garbage':
      return `garbage: ${answer.text}`
    case 'endless':
      return 'an answer without end'
    case 'reset':
      return 'a cut connection'
  }
}

function tokenProblem(token: string | undefined): string {
  const what = token ? 'the token sent is not the one it requires' : 'no token was sent'
  return `${what}. The token comes from context.credentials.get({ tokenFile, signal }), with the request's tokenFile, at each call`
}
