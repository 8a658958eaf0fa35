/** The socket on which the owner of a running `livery ca` rotates its root: `roots.sock` in the folder of the CA, mode 0600. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import type { AuthorityRoot, CertificateAuthority } from '@livery/ca-plugins/embedded'
import type { Clock } from '@livery/core/plugin'
import { asSocket, SocketFile } from '@livery/sds-server'
import type { Logger } from '../observe/logger.ts'

/** Answers `GET /roots`, `POST /roots`, `POST /roots/ID/switch` and `DELETE /roots/ID` with the resulting roots. */
export class CARootSocket implements AsyncDisposable {
  readonly #file: SocketFile
  readonly #http: Server

  private constructor(file: SocketFile, http: Server) {
    this.#file = file
    this.#http = http
  }

  /** Rejects with an `SdsServerError` if the socket cannot be created. */
  static async listen(
    directory: string,
    authority: CertificateAuthority,
    context: { readonly clock: Clock; readonly logger: Logger },
  ): Promise<CARootSocket> {
    const { clock, logger } = context
    const http = createServer((request, response) => void answer(authority, request, response, logger))
    const file = await SocketFile.listen({
      path: caRootSocket(directory),
      mode: 0o600,
      clock,
      onArrival: asSocket(socket => http.emit('connection', socket)),
      onEvent: event => {
        const fields = { event: event.kind, path: event.path, ...('error' in event && { err: event.error }) }
        logger.warn(fields, 'the socket for the roots of the CA was disturbed')
      },
    })
    return new CARootSocket(file, http)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#file.close()
    this.#http.closeAllConnections()
  }
}

export function caRootSocket(directory: string): string {
  return join(directory, 'roots.sock')
}

async function answer(
  authority: CertificateAuthority,
  request: IncomingMessage,
  response: ServerResponse,
  logger: Logger,
): Promise<void> {
  const action = actionOf(request.method ?? '', request.url ?? '')
  if (!action) {
    send(response, 404, 'There are GET /roots, POST /roots, POST /roots/ID/switch and DELETE /roots/ID.')
    return
  }
  try {
    await action.run(authority)
    if (action.done) logger.info({ roots: authority.roots().map(withoutPem) }, action.done)
    send(response, 200, authority.roots().map(withoutPem))
  } catch (error) {
    send(response, error instanceof TypeError ? 400 : 500, error instanceof Error ? error.message : String(error))
  }
}

interface Action {
  /** The sentence for the log; a listing has none. */
  readonly done?: string
  run(authority: CertificateAuthority): Promise<unknown>
}

function actionOf(method: string, path: string): Action | undefined {
  const [, id = ''] = /^\/roots\/([0-9a-f]+)(?:\/switch)?$/.exec(path) ?? []
  switch (`${method} ${path}`) {
    case 'GET /roots':
      return { run: () => Promise.resolve() }
    case 'POST /roots':
      return { done: 'a root was added: no certificate is under it yet', run: authority => authority.addRoot() }
    case `POST /roots/${id}/switch`:
      return { done: `certificates are under root ${id} from now on`, run: authority => authority.switchTo(id) }
    case `DELETE /roots/${id}`:
      return { done: `root ${id} was removed`, run: authority => authority.removeRoot(id) }
    default:
      return undefined
  }
}

/** A root as the socket shows it. */
export type ListedRoot = Omit<AuthorityRoot, 'pem'>

function withoutPem({ id, signing, notAfter }: AuthorityRoot): ListedRoot {
  return { id, signing, notAfter }
}

function send(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json', connection: 'close' }).end(JSON.stringify(body))
}
