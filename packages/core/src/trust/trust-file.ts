/** A file with roots, PEM or a SPIFFE bundle, or with revocation lists: read again whenever it has changed. */

import type { RootListener, RootSource } from '../contract/root-source.ts'
import { MAX_ROOTS_LENGTH } from '../contract/trust-anchor.ts'
import { ChangingFile } from '../files/changing-file.ts'
import type { WatchedFiles } from '../files/watched-files.ts'
import { errorText } from '../text/error-text.ts'
import { splitCertificates } from '../x509/pem.ts'
import { readSpiffeBundle } from './spiffe-bundle.ts'

type Look = { readonly roots: readonly string[] } | { readonly reason: string }

export class TrustFile implements RootSource {
  readonly trustDomain: string
  readonly name: string
  readonly #watched: WatchedFiles
  readonly #content: 'roots' | 'crls'
  readonly #file: ChangingFile
  #reads = 0
  #bytes: Buffer | undefined
  #last: Look = { reason: 'it was not read yet' }

  private constructor(path: string, trustDomain: string, watched: WatchedFiles, content: 'roots' | 'crls') {
    this.#content = content
    this.trustDomain = trustDomain
    this.name = path
    this.#watched = watched
    this.#file = new ChangingFile(path, MAX_ROOTS_LENGTH)
  }

  /** `path`: absolute. Never rejects: a file that cannot be read is reported to the listener, and read as soon as it can be. */
  static async open(
    path: string,
    trustDomain: string,
    watched: WatchedFiles,
    content: 'roots' | 'crls' = 'roots',
  ): Promise<TrustFile> {
    const file = new TrustFile(path, trustDomain, watched, content)
    await file.#read()
    return file
  }

  open(listener: RootListener): Disposable {
    let isOpen = true
    const read = async () => {
      const isNews = await this.#read()
      if (isNews && isOpen) this.#report(listener)
    }
    const watch = this.#watched.add([this.name], () => void read())
    this.#report(listener)
    // It may have changed since the first read.
    void read()
    return {
      [Symbol.dispose]: () => {
        isOpen = false
        watch[Symbol.dispose]()
      },
    }
  }

  /** Resolves with whether the list changed. Never rejects. */
  async #read(): Promise<boolean> {
    const number = ++this.#reads
    try {
      const bytes = await this.#file.read()
      if (number !== this.#reads || bytes === this.#bytes) return false
      this.#bytes = bytes
      this.#last = this.#look(bytes)
    } catch (error) {
      const reason = errorText(error)
      if (number !== this.#reads || ('reason' in this.#last && this.#last.reason === reason)) return false
      this.#bytes = undefined
      this.#last = { reason }
    }
    return true
  }

  #look(bytes: Buffer): Look {
    return this.#content === 'crls' ? { roots: [bytes.toString()] } : look(bytes)
  }

  #report(listener: RootListener): void {
    if ('roots' in this.#last) listener.listed(this.#last.roots)
    else listener.failed(this.#last.reason)
  }
}

function look(bytes: Buffer): Look {
  const text = bytes.toString()
  try {
    return { roots: text.trimStart().startsWith('{') ? readSpiffeBundle(JSON.parse(text)).roots : pemRoots(text) }
  } catch (error) {
    return { reason: error instanceof SyntaxError ? 'it is neither PEM nor JSON' : errorText(error) }
  }
}

const BEGIN = '-----BEGIN CERTIFICATE-----'

function pemRoots(text: string): readonly string[] {
  const begun = text.split(BEGIN).length - 1
  if (begun === 0) throw new TypeError('it has no PEM certificate')
  // A write is in progress: its roots are not the ones that the operator means.
  if (text.lastIndexOf(BEGIN) > text.lastIndexOf('-----END CERTIFICATE-----'))
    throw new TypeError('it ends within a certificate')
  const roots = splitCertificates(text)
  return [...roots, ...Array.from({ length: begun - roots.length }, () => '')]
}
