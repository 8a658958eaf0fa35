/** The service account of a pod: https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/ */
import { isIPv6 } from 'node:net'
import { ChangingFile } from '@livery/core/plugin'
import { caError } from '../answers/ca-error.ts'
import { reasonOf } from '../answers/reason-of.ts'
import { HttpPool, tlsAgent } from '../transport/http-pool.ts'
import { type ApiSession, type AuthorizedPool, type Login, type LoginSource, UNLIMITED } from './api-login.ts'

/** The folder where kubelet mounts the token and the root. */
const FOLDER = '/var/run/secrets/kubernetes.io/serviceaccount'
const MAX_BYTES = 1_048_576

export class PodLogin implements LoginSource {
  readonly #server: string
  readonly #tokenFile: string
  readonly #rootFile: ChangingFile
  #login: { readonly roots: Buffer; readonly login: Login } | undefined

  /** Throws a `TypeError` with `remedy` outside of a pod. `root` precedes the paths that kubelet mounts. */
  constructor(remedy: string, root = '') {
    const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port = '443' } = process.env
    if (host === undefined)
      throw new TypeError(
        `Cannot use the service account of the pod: KUBERNETES_SERVICE_HOST is not set, so this process does not run in a pod. ${remedy}.`,
      )
    this.#server = `https://${isIPv6(host) ? `[${host}]` : host}:${port}`
    this.#tokenFile = `${root}${FOLDER}/token`
    this.#rootFile = new ChangingFile(`${root}${FOLDER}/ca.crt`, MAX_BYTES)
  }

  async read(): Promise<Login> {
    const roots = await this.#roots()
    if (this.#login?.roots === roots) return this.#login.login
    const login: Login = {
      server: this.#server,
      tokenFile: this.#tokenFile,
      open: () => new PodSession(login, roots),
    }
    this.#login = { roots, login }
    return login
  }

  async #roots(): Promise<Buffer> {
    try {
      return await this.#rootFile.read()
    } catch (error) {
      throw caError('unavailable', {
        action: "use the pod's service account",
        reason: reasonOf(error),
        remedy: 'Correct it; it is read again',
        local: true,
      })
    }
  }
}

class PodSession implements ApiSession {
  readonly login: Login
  readonly #pool: HttpPool

  constructor(login: Login, roots: Buffer) {
    this.login = login
    this.#pool = new HttpPool(tlsAgent({ roots }, UNLIMITED))
  }

  async authorize(token: string | undefined): Promise<AuthorizedPool> {
    return { pool: this.#pool, headers: token === undefined ? {} : { authorization: `Bearer ${token}` } }
  }

  close(): void {
    this.#pool.close()
  }
}
