/** Waits until an SDS socket answers, or serves a secret: for programs that must not start earlier. */
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client, credentials, Metadata, type ServiceError, status } from '@grpc/grpc-js'
import { systemErrorCode } from '@livery/core/plugin'
import { Secret } from '../gen/envoy/extensions/transport_sockets/tls/v3/secret.ts'
import { DiscoveryRequest, DiscoveryResponse } from '../gen/envoy/service/discovery/v3/discovery.ts'
import { SECRET_TYPE_URL } from '../protocol/response-content.ts'

/** Between two requests for a secret that is not served yet. */
const PAUSE_MS = 250
/** How often an absent socket is tried, milliseconds, at first and at last. */
const RECONNECT = { 'grpc.initial_reconnect_backoff_ms': 100, 'grpc.max_reconnect_backoff_ms': 500 }

/**
 * Resolves when the server at `path` (absolute) has sent its HTTP/2 SETTINGS, which is the check of Istio's agent, and, with a name, has
 * answered this caller with that secret. Rejects after the timeout with the last reason and a remedy.
 */
export async function waitForSocket(path: string, timeoutMs: number, name?: string): Promise<void> {
  const deadline = Date.now() + timeoutMs
  const client = new Client(`unix:${path}`, credentials.createInsecure(), RECONNECT)
  try {
    if (!(await isReady(client, deadline))) throw new Error(`${path} did not answer: ${await whyNot(path)}`)
    if (await isNotLetIn(client, deadline)) throw new Error(`${path} did not answer: ${refusesUser()}`)
    if (name === undefined) return
    let known: string | undefined
    for (;;) {
      // The last request can be cut short by the deadline: then the answer before it is the reason.
      const refusal = await fetchRefusal(client, name, deadline, known)
      if (refusal === undefined) return
      if (Date.now() + PAUSE_MS >= deadline)
        throw new Error(`${path} does not serve ${JSON.stringify(name)} to uid ${ownUid()}: ${refusal}`)
      known = refusal
      await sleep(PAUSE_MS)
    }
  } finally {
    client.close()
  }
}

async function isReady(client: Client, deadline: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  client.waitForReady(deadline, error => resolve(error === undefined || error === null))
  return await promise
}

/** A server may send its SETTINGS to callers that it refuses, and then refuse their calls. */
async function isNotLetIn(client: Client, deadline: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const empty = () => Buffer.alloc(0)
  const answered = (error: ServiceError | null): void => resolve(error?.code === status.PERMISSION_DENIED)
  client.makeUnaryRequest('/grpc.health.v1.Health/Check', empty, empty, undefined, { deadline }, answered)
  return await promise
}

/** `undefined` once the answer has the secret. */
async function fetchRefusal(
  client: Client,
  name: string,
  deadline: number,
  known = 'it was not issued in time. Run: livery certs',
): Promise<string | undefined> {
  const { promise, resolve } = Promise.withResolvers<string | undefined>()
  const answered = (error: ServiceError | null, names: readonly string[] = []): void => {
    if (error?.code === status.DEADLINE_EXCEEDED) resolve(known)
    else if (error) resolve(`${error.details}. Run: livery certs`)
    else
      resolve(
        names.includes(name)
          ? undefined
          : `the agent does not hold it, or does not allow it to this user. Run: livery explain ${name}`,
      )
  }
  const path = '/envoy.service.secret.v3.SecretDiscoveryService/FetchSecrets'
  // The call waits for a server that restarts meanwhile.
  const metadata = new Metadata({ waitForReady: true })
  client.makeUnaryRequest(path, encodeRequest, decodeNames, name, metadata, { deadline }, answered)
  return await promise
}

function encodeRequest(name: string): Buffer {
  const asked = { resourceNames: [name], typeUrl: SECRET_TYPE_URL }
  const request = { versionInfo: '', node: undefined, responseNonce: '', errorDetail: undefined, ...asked }
  return Buffer.from(DiscoveryRequest.encode(request).finish())
}

function decodeNames(bytes: Uint8Array): readonly string[] {
  return DiscoveryResponse.decode(bytes).resources.map(({ value }) => Secret.decode(value).name)
}

/** Makes one more connection to find the reason and the remedy. */
async function whyNot(path: string): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string | undefined>()
  const socket = connect(path)
  socket.on('connect', () => resolve(undefined))
  socket.on('error', error => resolve(systemErrorCode(error) ?? error.message))
  const code = await promise.finally(() => socket.destroy())
  switch (code) {
    case undefined:
      return refusesUser()
    case 'ENOENT':
      return 'there is no such socket. Start "livery run", or mount the folder of the socket here'
    case 'ECONNREFUSED':
      return 'nobody listens on it. Start "livery run"'
    case 'EACCES':
      return `uid ${ownUid()} is not allowed to connect (EACCES). Change mode, owner or group of the socket, or of a folder above it`
    default:
      return `${code}. Name the path of an SDS socket`
  }
}

function refusesUser(): string {
  return `the listener refuses uid ${ownUid()}, or does not speak gRPC. Look at callers of that socket, and at the log of "livery run"`
}

function ownUid(): number {
  return process.getuid?.() ?? -1
}
