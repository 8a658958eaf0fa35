/** The requests of a person: the ledger of a name, a renewal, the log level. */
import type { PageToken } from '../../../agent/src/page/state.ts'

/** As the agent answers: its own sentence. */
export interface ActionResult {
  readonly isDone: boolean
  /** Only the operator is allowed. */
  readonly isForbidden: boolean
  readonly text: string
}

/** The answer of `/explain`, as far as the page shows it. */
interface Explanation {
  readonly entries: readonly LedgerLine[]
}

export interface LedgerLine {
  /** Milliseconds since the epoch. */
  readonly time: number
  readonly count?: number
  readonly text: string
  /** As in the log. */
  readonly level: string
}

/** Of this page and process: it shows that a request comes from here. */
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

/** The ledger of a name; without entries for a name to which nothing has happened. */
export async function explain(name: string, signal: AbortSignal): Promise<Explanation> {
  const response = await fetch(`/explain?name=${encodeURIComponent(name)}`, { signal })
  if (response.status === 404) return { entries: [] }
  if (!response.ok) throw new Error((await response.text()).trim())
  const explanation: Explanation = await response.json()
  return explanation
}

/** `operatorToken`: what is in admin.tokenFile, where the caller is not the operator already. */
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
    // The token is another one after a restart of the agent.
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
