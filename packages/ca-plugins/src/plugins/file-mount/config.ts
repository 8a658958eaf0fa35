/** Options of the `file-mount` plugin, the well-known layouts, and the resulting files. */
import { resolve } from 'node:path'
import { type ConfigOf, OptionError, type PluginOptions } from '@livery/core/plugin'
import { PathTemplate } from './path-template.ts'

const LAYOUT_NAMES = ['istio', 'workload-spiffe-credentials', 'gke', 'kubernetes-tls'] as const

export const fileMountOptions = {
  layout: {
    type: 'string',
    choices: LAYOUT_NAMES,
    default: 'istio',
    description:
      'the source of the default folder and file names in the next four keys: Istio, its `workload-spiffe-credentials`, GKE, or a Kubernetes TLS secret',
  },
  folder: {
    type: 'path',
    description:
      'the folder with the files of an identity; `{trustDomain}`, `{namespace}`, `{serviceAccount}`, `{name}` and `{path}` stand for its parts',
  },
  chain: {
    type: 'string',
    description:
      'PEM, by a name in the folder or a path: the leaf first, then its intermediates; a root among them is left out',
  },
  key: {
    type: 'string',
    description:
      "PEM, by a name in the folder or a path: the leaf's key, as PKCS#8, SEC1 or PKCS#1, without a passphrase",
  },
  roots: { type: 'string', description: 'PEM, by a name in the folder or a path: the trust bundle' },
  rootsFor: {
    type: 'string',
    choices: ['identity', 'trust-domain'],
    description:
      'the scope of the roots: the default is `identity` if the path of `roots` has a placeholder, else `trust-domain`',
  },
} as const satisfies PluginOptions

export type FileMountConfig = ConfigOf<typeof fileMountOptions>

/** The paths of each identity's files. */
export interface Mount {
  readonly chain: PathTemplate
  readonly key: PathTemplate
  readonly roots: PathTemplate
  /** `trust-domain` lets every process that can write such a file decide whom all identities trust. */
  readonly rootsFor: 'identity' | 'trust-domain'
}

interface Layout {
  readonly folder?: string
  readonly chain: string
  readonly key: string
  readonly roots: string
}

const ISTIO_NAMES = { chain: 'cert-chain.pem', key: 'key.pem', roots: 'root-cert.pem' }
const CREDENTIALS_FOLDER = '/var/run/secrets/workload-spiffe-credentials'

const LAYOUTS: Readonly<Record<(typeof LAYOUT_NAMES)[number], Layout>> = {
  istio: { folder: '/etc/certs', ...ISTIO_NAMES },
  'workload-spiffe-credentials': { folder: CREDENTIALS_FOLDER, ...ISTIO_NAMES },
  gke: {
    folder: CREDENTIALS_FOLDER,
    chain: 'certificates.pem',
    key: 'private_key.pem',
    roots: 'ca_certificates.pem',
  },
  'kubernetes-tls': { chain: 'tls.crt', key: 'tls.key', roots: 'ca.crt' },
}

/** Throws an `OptionError` for values that do not go together. */
export function mountOf({ layout, ...config }: FileMountConfig): Mount {
  const names = { ...LAYOUTS[layout], ...config }
  const { folder } = names
  if (folder === undefined)
    throw new OptionError(
      'layout',
      `Cannot use layout ${JSON.stringify(layout)}: folder is missing. Name it, such as /var/run/identities/{namespace}/{serviceAccount}.`,
    )
  const template = (field: 'chain' | 'key' | 'roots') => new PathTemplate(field, resolve(folder, names[field]))
  new PathTemplate('folder', folder)
  const roots = template('roots')
  const rootsFor = config.rootsFor ?? (roots.fixed === undefined ? 'identity' : 'trust-domain')
  return { chain: template('chain'), key: template('key'), roots, rootsFor }
}
