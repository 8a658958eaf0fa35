/** Paths with placeholders for parts of an identity: `/var/run/identities/{namespace}/{serviceAccount}`. */
import { type CAError, isSpiffeId, OptionError, type SpiffeId, trustDomainOf } from '@livery/core/plugin'
import { caError } from '../../answers/ca-error.ts'

const PLACEHOLDERS = ['trustDomain', 'namespace', 'serviceAccount', 'name', 'path'] as const
type Placeholder = (typeof PLACEHOLDERS)[number]

export class PathTemplate {
  /** The template as it was written. */
  readonly text: string

  /** Throws an `OptionError` that names `field` for an unknown placeholder. */
  constructor(field: string, text: string) {
    this.text = text
    const wrong = text.match(/\{[^{}]*\}|[{}]/g)?.find(found => !isPlaceholder(found.slice(1, -1)))
    if (wrong === undefined) return
    const known = PLACEHOLDERS.map(name => `{${name}}`).join(', ')
    throw new OptionError(
      field,
      `Cannot use ${field} ${JSON.stringify(text)}: ${wrong} is not a placeholder. The placeholders are ${known}; a path cannot have other braces.`,
    )
  }

  /** The path, if it is the same for every identity. */
  get fixed(): string | undefined {
    return this.text.includes('{') ? undefined : this.text
  }

  /**
   * The path for `identity`. Throws a `CAError` `denied` if the identity lacks a part, or has one that begins with a dot,
   * which could lead out of the folder or to `..data`.
   */
  fill(identity: SpiffeId): string {
    const parts = partsOf(identity)
    return this.text.replace(/\{(\w+)\}/g, (_, name: Placeholder) => {
      const part = parts[name]
      if (part === undefined)
        throw refused(identity, `it has no {${name}}`, 'Use {path} or {name}, or write it as ns/<namespace>/sa/<name>')
      if (part.split('/').some(segment => segment === '' || segment.startsWith('.')))
        throw refused(identity, `its {${name}} has a part that begins with a dot`, 'Rename it')
      return part
    })
  }
}

function isPlaceholder(name: string): name is Placeholder {
  return PLACEHOLDERS.some(placeholder => placeholder === name)
}

function partsOf(identity: SpiffeId): Readonly<Record<Placeholder, string | undefined>> {
  // It becomes part of a path: only a text that passes its own check may.
  if (!isSpiffeId(identity)) throw refused(identity, 'it is not a SPIFFE ID', 'Correct it')
  const trustDomain = trustDomainOf(identity)
  const path = identity.slice(`spiffe://${trustDomain}/`.length)
  const [, namespace, serviceAccount] = /^ns\/([^/]+)\/sa\/([^/]+)$/.exec(path) ?? []
  return { trustDomain, namespace, serviceAccount, name: path.split('/').at(-1), path }
}

function refused(identity: string, reason: string, remedy: string): CAError {
  return caError('denied', { action: `name the files of ${identity.slice(0, 300)}`, reason, remedy })
}
