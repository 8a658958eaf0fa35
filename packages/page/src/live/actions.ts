/** Requests that a person makes: the ledger of a name, a renewal, the log level. */
import type { PageToken } from '../../../agent/src/page/state.ts'

/** The agent's answer, with its own sentence. */
export interface ActionResult {
  readonly isDone: boolean
  /** Set if only the operator may do it. */
  readonly isForbidden: boolean
  readonly text: string
}

/** The fields of `/explain` that the page shows. */
interface Explanation {
  readonly entries: readonly LedgerLine[]
}

export interface LedgerLine {
  /** Milliseconds since the epoch. */
  readonly time: number
  readonly count?: number
  readonly text: string
  /** A level of the log. */
  readonly level: string
}

/** The token of this page and process, which proves that a request comes from here. */
let pageToken: Promise<PageToken> | undefined

export function readPageToken(): Promise<PageToken> {
  pageToken ??= fetch('/page/token').then(async response => {
    if (!response.ok) throw new Error((await response.text()).trim())
    const token: PageToken = await response.json()
    return token
  })
  return pageToken.catch((error: unknown) => {
    pageToken = undefined
    throw error
  })
}

/** The ledger of a name; without entries if nothing has happened to it. */
export async function explain(name: string, signal: AbortSignal): Promise<Explanation> {
  const response = await fetch(`/explain?name=${encodeURIComponent(name)}`, { signal })
  if (response.status === 404) return { entries: [] }
  if (!response.ok) throw new Error((await response.text()).trim())
  const explanation: Explanation = await response.json()
  return explanation
}

/** `operatorToken`: the content of admin.tokenFile, needed unless the caller is the operator already. */
export function renew(name: string, operatorToken: string | undefined): Promise<ActionResult> {
  return put(`/renew?name=${encodeURIComponent(name)}`, operatorToken)
}

export function setLogLevel(level: string): Promise<ActionResult> {
  return put(`/logging?level=${encodeURIComponent(level)}`, undefined)
}

async function put(path: string, operatorToken: string | undefined): Promise<ActionResult> {
  try {
    const { token } = await readPageToken()
    const authorization = operatorToken === undefined ? {} : { authorization: `Bearer ${operatorToken}` }
    const response = await fetch(path, { method: 'PUT', headers: { 'x-livery-page': token, ...authorization } })
    // A restart of the agent changes the token.
    if (response.status === 403) pageToken = undefined
    return { isDone: response.ok, isForbidden: response.status === 403, text: (await response.text()).trim() }
  } catch (error) {
    return {
      isDone: false,
      isForbidden: false,
      text: `Not sent: ${error instanceof Error ? error.message : String(error)}.`,
    }
  }
}
