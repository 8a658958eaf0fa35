/** The caller and the API server: what a kubeconfig and a pod's service account have in common. */
import type { HttpPool } from '../transport/http-pool.ts'

export interface LoginSource {
  /** The same object while nothing has changed. Rejects with a `CAError` `unavailable` for files that cannot be used. */
  read(): Promise<Login>
}

export interface Login {
  /** The URL of the API server. */
  readonly server: string
  /** The login's own token, read at each request. */
  readonly tokenFile?: string
  /** Starts without a connection. */
  open(): ApiSession
}

/** The connections that were made with one login. */
export interface ApiSession {
  readonly login: Login
  /** With `token` where there is one, else as the user of the login. Rejects with a `CAError` `unauthenticated`. */
  authorize(token: string | undefined): Promise<AuthorizedPool>
  /** Called once, when no call is open. */
  close(): void
}

export interface AuthorizedPool {
  readonly pool: HttpPool
  /** Of the next request. */
  readonly headers: Readonly<Record<string, string>>
}

/** Each request that waits for an approval has its own watch, so that a limit would block the others. */
export const UNLIMITED = { maxSockets: Number.POSITIVE_INFINITY }
