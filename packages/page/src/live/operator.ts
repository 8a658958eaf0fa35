/** Requests that only the operator may make: the page asks for the token when it is needed, and never stores it. */
import { signal } from '@preact/signals'
import { type ActionResult, readPageToken } from './actions.ts'

/** Kept in memory only: it is gone with the page. */
let operatorToken: string | undefined

/** A request that waits for the token of the operator. */
export interface TokenRequest {
  /** The sentence in the dialog. */
  readonly purpose: string
  /** Why the last token was refused. */
  readonly refusal: string
  /** `undefined`: the person cancelled. */
  readonly answer: (token: string | undefined) => void
}

export const tokenRequest = signal<TokenRequest | undefined>(undefined)

/** Runs `action` with the operator's token if it needs one; `undefined` if the person cancelled. */
export async function asOperator(
  purpose: string,
  action: (token: string | undefined) => Promise<ActionResult>,
): Promise<ActionResult | undefined> {
  const { operator, tokenFile } = await readPageToken()
  if (operator || !tokenFile) return await action(undefined)
  for (let refusal = ''; ; ) {
    operatorToken ??= await askForToken(purpose, refusal)
    if (operatorToken === undefined) return undefined
    const result = await action(operatorToken)
    if (!result.isForbidden) return result
    operatorToken = undefined
    refusal = result.text
  }
}

function askForToken(purpose: string, refusal: string): Promise<string | undefined> {
  const { promise, resolve } = Promise.withResolvers<string | undefined>()
  tokenRequest.value = {
    purpose,
    refusal,
    answer: token => {
      tokenRequest.value = undefined
      resolve(token)
    },
  }
  return promise
}
