/** The objects of a stand-in API server: versions, validation, conditions that stay, and watches from any version on. */
import 'reflect-metadata'
import { randomUUID } from 'node:crypto'
import { pemToDer } from '@livery/core/plugin'
import { Pkcs10CertificateRequest } from '@peculiar/x509'

export interface StoredObject {
  readonly metadata: { readonly name: string; readonly uid: string; readonly resourceVersion: string }
  readonly spec: {
    readonly request?: string
    readonly signerName?: string
    readonly usages?: readonly string[]
    readonly expirationSeconds?: number
    readonly username?: string
    readonly trustBundle?: string
  }
  readonly status?: { readonly certificate?: string; readonly conditions?: readonly object[] }
}

interface ObjectEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'ERROR'
  readonly object: object
}

/** As the API server answers with `kind: Status`. */
export class StatusError extends Error {
  readonly code: number

  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}

interface Recorded extends ObjectEvent {
  readonly version: number
  readonly resource: string
  readonly object: StoredObject
}

interface New {
  readonly metadata: { readonly name?: string; readonly generateName?: string }
  readonly spec: StoredObject['spec']
}

const MIN_SECONDS = 600
const USAGES = new Set(['digital signature', 'key encipherment', 'server auth', 'client auth'])
/** Older ones are cleaned away, as the controller manager does after an hour. */
const MAX_OBJECTS = 256
const MAX_EVENTS = 1024

export class KubeObjects {
  /** Whether each event is sent twice. */
  duplicates = false
  readonly #objects = new Map<string, StoredObject>()
  #events: Recorded[] = []
  readonly #listeners = new Set<(event: Recorded) => void>()
  #version = 100
  #compacted = 0

  create(resource: string, { metadata, spec }: New, username: string): StoredObject {
    const { generateName } = metadata
    const name = metadata.name ?? `${generateName}${String(this.#version).padStart(5, '0')}`
    if (this.#objects.has(`${resource}/${name}`)) throw new StatusError(409, `${resource} "${name}" already exists`)
    if (resource === 'certificatesigningrequests') validate(spec)
    const object = {
      metadata: { name, uid: randomUUID(), resourceVersion: '' },
      spec: { ...spec, username },
      status: {},
    }
    return this.#put(resource, object, 'ADDED')
  }

  get(resource: string, name: string): StoredObject {
    const object = this.#objects.get(`${resource}/${name}`)
    if (object) return object
    throw new StatusError(404, `${resource}.certificates.k8s.io "${name}" not found`)
  }

  list(resource: string, name: string): object {
    const items = [...this.#objects]
      .filter(([key, object]) => key.startsWith(`${resource}/`) && (name === '' || object.metadata.name === name))
      .map(([, object]) => object)
    return {
      kind: 'CertificateSigningRequestList',
      apiVersion: 'certificates.k8s.io/v1',
      metadata: { resourceVersion: String(this.#version) },
      items,
    }
  }

  update(resource: string, name: string, { status = {} }: { readonly status?: StoredObject['status'] }): StoredObject {
    const present = this.get(resource, name)
    return this.#put(resource, { ...present, status: { ...present.status, ...status } }, 'MODIFIED')
  }

  delete(resource: string, name: string): StoredObject {
    const object = this.get(resource, name)
    this.#objects.delete(`${resource}/${name}`)
    this.#record(resource, 'DELETED', {
      ...object,
      metadata: { ...object.metadata, resourceVersion: String(++this.#version) },
    })
    return object
  }

  /** As when it was restored from a copy: it knows nothing of versions before now. */
  compact(): void {
    this.#compacted = this.#version
    this.#events = []
  }

  /** `live` is false if there is nothing to come. */
  watch(
    resource: string,
    name: string,
    resourceVersion: string,
    listener: (event: ObjectEvent) => void,
  ): Disposable & { readonly live: boolean } {
    const from = Number(resourceVersion)
    if (from < this.#compacted) {
      const message = `too old resource version: ${from} (${this.#compacted})`
      listener({ type: 'ERROR', object: { kind: 'Status', code: 410, reason: 'Expired', message } })
      return { live: false, [Symbol.dispose]: () => {} }
    }
    const tell = ({ type, object, ...event }: Recorded) => {
      if (event.resource !== resource || event.version <= from || (name !== '' && object.metadata.name !== name)) return
      for (let times = this.duplicates ? 2 : 1; times > 0; times--) listener({ type, object })
    }
    for (const event of this.#events) tell(event)
    this.#listeners.add(tell)
    return { live: true, [Symbol.dispose]: () => void this.#listeners.delete(tell) }
  }

  #put(resource: string, object: StoredObject, type: 'ADDED' | 'MODIFIED'): StoredObject {
    const resourceVersion = String(++this.#version)
    const stored = { ...object, metadata: { ...object.metadata, resourceVersion } }
    this.#objects.set(`${resource}/${object.metadata.name}`, stored)
    const [oldest] = this.#objects.keys()
    if (oldest !== undefined && this.#objects.size > MAX_OBJECTS) this.#objects.delete(oldest)
    this.#record(resource, type, stored)
    return stored
  }

  #record(resource: string, type: ObjectEvent['type'], object: StoredObject): void {
    const event = { version: this.#version, resource, type, object }
    this.#events.push(event)
    if (this.#events.length > MAX_EVENTS) this.#events = this.#events.slice(MAX_EVENTS / 2)
    for (const listener of [...this.#listeners]) listener(event)
  }
}

function validate({ expirationSeconds = MIN_SECONDS, usages = [], request = '' }: StoredObject['spec']): void {
  if (expirationSeconds < MIN_SECONDS)
    throw new StatusError(
      422,
      `spec.expirationSeconds: Invalid value: ${expirationSeconds}: may not specify a duration less than 600 seconds (10 minutes)`,
    )
  const unknown = usages.find(usage => !USAGES.has(usage))
  if (unknown !== undefined) throw new StatusError(422, `spec.usages: Unsupported value: "${unknown}"`)
  try {
    new Pkcs10CertificateRequest(new Uint8Array(pemToDer(Buffer.from(request, 'base64').toString())))
  } catch {
    throw new StatusError(422, 'spec.request: Invalid value: asn1: structure error')
  }
}
