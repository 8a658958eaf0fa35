/** The two calls that enumerate objects at the API server: list in pages, and watch. */
import { type Clock, withDeadline } from '@livery/core/plugin'
import type { ApiConnection } from './api-connection.ts'
import { AnswerTooLarge, type ApiCall } from './api-errors.ts'
import { readWatchEvents, type WatchEvent } from './watch-events.ts'

/** A page of the list. */
export interface ObjectPage {
  readonly items: readonly unknown[]
  readonly resourceVersion: string
  /** Continues at the next page. */
  readonly next: string | undefined
}

/** The server forgot the list before its last page, or the answer is not a list. */
export class UnusableListError extends Error {}

/** How long one page may take. */
const TIMEOUT_MS = 30_000
/** Pods are some 10 KB each; some controllers write a hundred times as much. Secrets and others are smaller. */
const PAGE_SIZE = 64
/** Brackets, braces and commas: 64 pods have some 50,000. */
const MAX_VALUES = 500_000
/** Tokens and versions are some hundred characters. */
const MAX_TEXT = 65_536

export interface ObjectsApiOptions {
  readonly connection: Pick<ApiConnection, 'request' | 'stream'>
  readonly clock: Clock
  /** The path of the collection: `/api/v1/pods`. */
  readonly path: string
  /** Selects objects, in the syntax of Kubernetes. */
  readonly fieldSelector: string
  readonly resource: ApiCall['resource']
  /** Names the objects in messages: `the pods of this node`. */
  readonly what: string
  /** Whether the server sends only the metadata of objects. Default: `false`. */
  readonly metadataOnly?: boolean
}

/** The API server sends an object or a list in this form without its content. */
const metadataOf = (kind: 'PartialObjectMetadata' | 'PartialObjectMetadataList') => ({
  accept: `application/json;as=${kind};g=meta.k8s.io;v=v1`,
})

export class ObjectsApi {
  readonly #options: ObjectsApiOptions
  /** Halved when a page was too large. */
  #pageSize = PAGE_SIZE

  constructor(options: ObjectsApiOptions) {
    this.#options = options
  }

  /** The page after `from`, or the first. Rejects with a `CAError`, an {@link UnusableListError}, or the signal's reason. */
  async list(from: string | undefined, signal: AbortSignal): Promise<ObjectPage> {
    const { clock, what } = this.#options
    const error = () => new Error(`Cannot list ${what}: no answer within ${TIMEOUT_MS} ms`)
    for (;;) {
      try {
        return await withDeadline({ clock, ms: TIMEOUT_MS, error, signal }, ending => this.#page(from, ending))
      } catch (error) {
        if (!(error instanceof AnswerTooLarge) || this.#pageSize === 1) throw error
        this.#pageSize = Math.ceil(this.#pageSize / 2)
      }
    }
  }

  /** Yields the events after `resourceVersion`. Rejects as {@link list} does; ends as `ApiConnection.stream` does. */
  watch(resourceVersion: string, signal: AbortSignal): AsyncGenerator<WatchEvent, void> {
    const { connection, path, what, resource, metadataOnly } = this.#options
    const query = this.#query({ watch: 'true', resourceVersion, allowWatchBookmarks: 'true' })
    const call = { what: `watch ${what}`, verb: 'watch', resource } as const
    const headers = metadataOnly ? metadataOf('PartialObjectMetadata') : {}
    return readWatchEvents(connection.stream(call, { signal }, { path: `${path}?${query}`, headers }))
  }

  async #page(from: string | undefined, signal: AbortSignal): Promise<ObjectPage> {
    const { connection, path, what, resource, metadataOnly } = this.#options
    const query = this.#query({ limit: String(this.#pageSize), ...(from !== undefined && { continue: from }) })
    const call = { what: `list ${what}`, verb: 'list', resource } as const
    const headers = metadataOnly ? metadataOf('PartialObjectMetadataList') : {}
    const request = { path: `${path}?${query}`, headers, expected: [410], maxValues: MAX_VALUES }
    const { status, json } = await connection.request(call, { signal }, request)
    if (status === 410) throw new UnusableListError(`Cannot list ${what}: the list changed too long ago`)
    const { metadata } = json
    // An empty list of metadata has no array.
    const items = json['items'] === null ? [] : json['items']
    const { resourceVersion, continue: next } = Object(metadata)
    if (!Array.isArray(items) || !isText(resourceVersion) || !(next === undefined || next === '' || isText(next)))
      throw new UnusableListError(`Cannot list ${what}: the answer is not a list of ${resource}`)
    return { items, resourceVersion, next: next || undefined }
  }

  #query(parameters: Readonly<Record<string, string>>): URLSearchParams {
    return new URLSearchParams({ fieldSelector: this.#options.fieldSelector, ...parameters })
  }
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.length <= MAX_TEXT
}
