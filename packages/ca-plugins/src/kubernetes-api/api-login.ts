/** The parts that a kubeconfig and a pod's service account share: the caller and the API server. */
import type { HttpPool } from '../transport/http-pool.ts'

export interface LoginSource {
  /** Resolves with the same object while nothing has changed. Rejects with a `CAError` `unavailable` for unusable files. */
  read(): Promise<Login>
}

export interface Login {
  /** The URL of the API server. */
  readonly server: string
  /** The login's own token, read at each request. */
  readonly tokenFile?: string
  /** Opens no connection yet. */
  open(): ApiSession
}

/** The connections that were made with one login. */
export interface ApiSession {
  readonly login: Login
  /** Authorizes with `token`, or as the user of the login without one. Rejects with a `CAError` `unauthenticated`. */
  authorize(token: string | undefined): Promise<AuthorizedPool>
  /** Called once, when no call is open. */
  close(): void
}

export interface AuthorizedPool {
  readonly pool: HttpPool
  /** The headers of the next request. */
  readonly headers: Readonly<Record<string, string>>
}

/** Each request that awaits an approval has its own watch: a limit would block the others. */
export const UNLIMITED = { maxSockets: Number.POSITIVE_INFINITY }
