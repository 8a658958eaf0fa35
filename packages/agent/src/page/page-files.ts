/** The files of the page, as they were built. */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { systemErrorCode } from '@livery/core/plugin'

/** Beside `src` and `dist`. */
const BUILT = new URL('../../page-dist/', import.meta.url)

const CONTENT_TYPES = {
  'index.html': 'text/html; charset=utf-8',
  'app.js': 'text/javascript; charset=utf-8',
  'app.css': 'text/css; charset=utf-8',
} as const

export type PageFileName = keyof typeof CONTENT_TYPES

interface PageFile {
  readonly contentType: string
  readonly text: string
  /** A strong validator (RFC 9110, section 8.8.3). */
  readonly etag: string
}

/** Reads each file once, on first use. */
export class PageFiles {
  readonly #folder: URL
  readonly #read = new Map<PageFileName, PageFile>()

  constructor(folder = BUILT) {
    this.#folder = folder
  }

  /** `undefined` if the page is not built. */
  async get(name: PageFileName): Promise<PageFile | undefined> {
    const known = this.#read.get(name)
    if (known) return known
    try {
      const text = await readFile(new URL(name, this.#folder), 'utf8')
      const etag = `"${createHash('sha256').update(text).digest('base64url')}"`
      const file = { contentType: CONTENT_TYPES[name], text, etag }
      this.#read.set(name, file)
      return file
    } catch (error) {
      if (systemErrorCode(error) === 'ENOENT') return undefined
      throw error
    }
  }
}
