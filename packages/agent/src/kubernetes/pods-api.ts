/** The two calls of the API server that say which pods are on a node: list in pages, and watch. */
import { AnswerTooLarge, type ApiConnection, readWatchEvents, type WatchEvent } from '@livery/ca-plugins/kubernetes-api'
import { type Clock, withDeadline } from '@livery/core/plugin'

/** A page of the list. */
export interface PodPage {
  readonly items: readonly unknown[]
  readonly resourceVersion: string
  /** For the next page. */
  readonly next: string | undefined
}

/** A list that the server has forgotten before its last page was asked for, or a form that is not a list of pods. */
export class UnusableListError extends Error {}

const PATH = '/api/v1/pods'
/** How long one page may take. */
const TIMEOUT_MS = 30_000
/** Pods are some 10 KB each; some controllers write a hundred times as much. */
const PAGE_SIZE = 64
/** Brackets, braces and commas: 64 pods have some 50,000. */
const MAX_VALUES = 500_000
/** Tokens and versions are some hundred characters. */
const MAX_TEXT = 65_536

interface PodsApiOptions {
  readonly connection: Pick<ApiConnection, 'request' | 'stream'>
  readonly clock: Clock
  readonly nodeName: string
}

export class PodsApi {
  readonly #options: PodsApiOptions
  /** Halved when a page was too large. */
  #pageSize = PAGE_SIZE

  constructor(options: PodsApiOptions) {
    this.#options = options
  }

  /** The page after `from`, or the first. Rejects with a `CAError`, an {@link UnusableListError}, or the signal's reason. */
  async list(from: string | undefined, signal: AbortSignal): Promise<PodPage> {
    const { clock } = this.#options
    const error = () => new Error(`Cannot list the pods of this node: no answer within ${TIMEOUT_MS} ms`)
    for (;;) {
      try {
        return await withDeadline({ clock, ms: TIMEOUT_MS, error, signal }, ending => this.#page(from, ending))
      } catch (error) {
        if (!(error instanceof AnswerTooLarge) || this.#pageSize === 1) throw error
        this.#pageSize = Math.ceil(this.#pageSize / 2)
      }
    }
  }

  /** Yields what happens after `resourceVersion`. Rejects as {@link list} does; ends as `ApiConnection.stream` does. */
  watch(resourceVersion: string, signal: AbortSignal): AsyncGenerator<WatchEvent, void> {
    const query = this.#query({ watch: 'true', resourceVersion, allowWatchBookmarks: 'true' })
    const call = { what: 'watch the pods of this node', verb: 'watch', resource: 'pods' } as const
    return readWatchEvents(this.#options.connection.stream(call, { signal }, `${PATH}?${query}`))
  }

  async #page(from: string | undefined, signal: AbortSignal): Promise<PodPage> {
    const query = this.#query({ limit: String(this.#pageSize), ...(from !== undefined && { continue: from }) })
    const call = { what: 'list the pods of this node', verb: 'list', resource: 'pods' } as const
    const request = { path: `${PATH}?${query}`, expected: [410], maxValues: MAX_VALUES }
    const { status, json } = await this.#options.connection.request(call, { signal }, request)
    if (status === 410) throw new UnusableListError('Cannot list the pods of this node: the list changed too long ago')
    const { items, metadata } = json
    const { resourceVersion, continue: next } = Object(metadata)
    if (!Array.isArray(items) || !isText(resourceVersion) || !(next === undefined || next === '' || isText(next)))
      throw new UnusableListError('Cannot list the pods of this node: the answer is not a list of pods')
    return { items, resourceVersion, next: next || undefined }
  }

  #query(parameters: Readonly<Record<string, string>>): URLSearchParams {
    return new URLSearchParams({ fieldSelector: `spec.nodeName=${this.#options.nodeName}`, ...parameters })
  }
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.length <= MAX_TEXT
}
