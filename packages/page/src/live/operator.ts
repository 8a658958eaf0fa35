/** Requests that only the operator is allowed: the token is asked for where it is needed, and never stored. */
import { signal } from '@preact/signals'
import { type ActionResult, readPageToken } from './actions.ts'

/** In memory only: it is gone with the page. */
let operatorToken: string | undefined

/** A request that waits for the token of the operator. */
export interface TokenRequest {
  /** As the dialog says it. */
  readonly purpose: string
  /** Why the last token was not taken. */
  readonly refusal: string
  /** `undefined`: the person gave it up. */
  readonly answer: (token: string | undefined) => void
}

export const tokenRequest = signal<TokenRequest | undefined>(undefined)

/** Runs `action` with the operator's token where it needs one; `undefined` if the person gave it up. */
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
