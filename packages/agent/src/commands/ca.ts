/** `livery ca`: the embedded CA as a server of Istio's certificate service, for trials with more than one node. */
import { isIP } from 'node:net'
import { join, resolve } from 'node:path'
import { CertificateAuthority } from '@livery/ca-plugins/embedded'
import {
  type Authenticator,
  type CurrentGrants,
  clientCertificates,
  IstioCaServer,
  listedTokens,
  reviewedTokens,
} from '@livery/ca-plugins/istio-ca-server'
import { ApiConnection, PodLogin } from '@livery/ca-plugins/kubernetes-api'
import { type Clock, hideUserinfo, SystemClock, trustDomainProblem } from '@livery/core/plugin'
import { createLogger, type Logger } from '../observe/logger.ts'
import { parseHostPort } from '../schema/values.ts'
import { CAMetrics } from './ca-metrics.ts'
import { CARootSocket } from './ca-root-socket.ts'
import { UsageError } from './exit-code.ts'
import { serveUntilSignal } from './shutdown.ts'
import type { GlobalOptions, Terminal } from './terminal.ts'
import { TokenGrantsFile } from './token-grants.ts'

export interface CAOptions {
  readonly listen: string
  readonly dir: string
  readonly trustDomain?: string
  readonly tokens?: string
  readonly tokenReview?: string
  readonly audience: string
  readonly serverName?: readonly string[]
  readonly metrics?: string
}

interface ReviewContext {
  readonly clock: Clock
  /** Takes what has to be closed. */
  readonly parts: AsyncDisposableStack
  warn(message: string): void
}

/** Resolves with the exit code when a signal has ended it; rejects if it cannot start. */
export async function serveCA(options: CAOptions, { json }: GlobalOptions, terminal: Terminal): Promise<number> {
  const trustDomain = options.trustDomain ?? (terminal.environment['TRUST_DOMAIN'] || 'cluster.local')
  checkOptions(options, trustDomain)
  await using sink = await createLogger({ level: 'info', format: json || !terminal.terminal ? 'json' : 'pretty' })
  return await serveUntilSignal(sink.logger, () =>
    startCA(options, trustDomain, terminal.workingDirectory, sink.logger),
  )
}

function checkOptions({ listen, metrics, tokens, tokenReview }: CAOptions, trustDomain: string): void {
  const problem = trustDomainProblem(trustDomain)
  if (problem !== undefined) throw new UsageError(`trust domain ${JSON.stringify(trustDomain)} ${problem}.`)
  for (const [option, address] of Object.entries({ listen, metrics }))
    if (address !== undefined && !parseHostPort(address))
      throw new UsageError(`--${option} ${JSON.stringify(hideUserinfo(address))} is not an address. Write host:port.`)
  if (tokens === undefined && tokenReview === undefined)
    throw new UsageError('nobody could call this CA: name the callers with --tokens or --token-review.')
}

async function startCA(
  options: CAOptions,
  trustDomain: string,
  workingDirectory: string,
  logger: Logger,
): Promise<AsyncDisposable> {
  await using parts = new AsyncDisposableStack()
  const clock = parts.use(new SystemClock())
  const warn = (message: string): void => logger.warn(message)
  const directory = resolve(workingDirectory, options.dir)
  const authority = await CertificateAuthority.open({ clock, trustDomain, directory, warn })
  const authenticators = await authenticatorsOf(options, authority, workingDirectory, { clock, warn, parts })
  const metrics = new CAMetrics(authority)
  const metricsAddress = options.metrics === undefined ? undefined : parseHostPort(options.metrics)
  const listener = metricsAddress && parts.use(await metrics.listen(metricsAddress))
  const server = parts.use(
    await IstioCaServer.start({
      authority,
      authenticators,
      clock,
      listen: options.listen,
      ...(options.serverName && { serverNames: serverNames(options.serverName) }),
      observe: event => metrics.count(event),
      warn,
    }),
  )
  const rootSocket = await listenForRoots(directory, authority, { clock, logger })
  if (rootSocket) parts.use(rootSocket)
  const rootCert = join(directory, 'root.pem')
  logger.warn(
    `This CA ${authority.isNew ? 'has made a new root, and ' : ''}keeps its key in ${directory}: it is for trying things out, not for production.`,
  )
  logger.info(
    { address: server.address, trustDomain, rootCert, ...(listener && { metrics: listener.address }) },
    `CA of ${trustDomain} on ${server.address}; its root is in ${rootCert}`,
  )
  return parts.move()
}

/** The CA also serves without this socket: a second process can own the folder, or the path be too long. */
async function listenForRoots(
  directory: string,
  authority: CertificateAuthority,
  context: { readonly clock: Clock; readonly logger: Logger },
): Promise<CARootSocket | undefined> {
  try {
    return await CARootSocket.listen(directory, authority, context)
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    context.logger.warn(`"livery ca root" cannot reach this CA. ${reason}`)
    return undefined
  }
}

async function authenticatorsOf(
  { tokens, tokenReview, audience }: CAOptions,
  authority: CertificateAuthority,
  workingDirectory: string,
  { parts, ...context }: ReviewContext,
): Promise<Authenticator[]> {
  const authenticators: Authenticator[] = []
  let grants: CurrentGrants | undefined
  if (tokens !== undefined) {
    const { current } = await TokenGrantsFile.open(resolve(workingDirectory, tokens), context.warn)
    grants = current
    authenticators.push(listedTokens(current), clientCertificates(authority, current))
  }
  if (tokenReview !== undefined) {
    const login = await apiLogin(tokenReview, workingDirectory, context)
    const connection = parts.use(new ApiConnection(login, context.clock))
    const { trustDomain } = authority
    authenticators.push(reviewedTokens({ connection, clock: context.clock, audience, trustDomain, grants }))
  }
  return authenticators
}

/** `in-cluster`, or the path of a kubeconfig, for which the client library has to be installed. */
async function apiLogin(where: string, workingDirectory: string, log: Pick<ReviewContext, 'warn'>) {
  if (where === 'in-cluster') return new PodLogin('Name a kubeconfig')
  const { openKubeconfig } = await import('@livery/ca-plugins/kubernetes-csr')
  return await openKubeconfig(resolve(workingDirectory, where), log)
}

/** The names of a certificate for this machine, and the further ones. */
function serverNames(further: readonly string[]): { dnsNames: string[]; ipAddresses: string[] } {
  return {
    dnsNames: ['localhost', 'istiod.istio-system.svc', ...further.filter(name => isIP(name) === 0)],
    ipAddresses: ['127.0.0.1', '::1', ...further.filter(name => isIP(name) !== 0)],
  }
}
