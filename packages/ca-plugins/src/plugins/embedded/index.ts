/** The `embedded` plugin: a certificate authority in the same process, for trials. */
import { defineCAPlugin, KEY_TYPES, type PluginOptions } from '@livery/core/plugin'
import { CertificateAuthority } from './certificate-authority.ts'
import { EmbeddedClient } from './client.ts'

export type { CertificateAuthorityOptions } from './authority-state.ts'
export type {
  AuthorityRoot,
  IssuedServerCertificate,
  SignedCertificate,
  SigningRequest,
} from './certificate-authority.ts'
export { CertificateAuthority } from './certificate-authority.ts'
export { EmbeddedClient } from './client.ts'
export type { ServerNames } from './server-names.ts'

const embeddedOptions = {
  directory: {
    type: 'path',
    description: 'the folder that keeps the CA, so that a restart has the same root; default: in memory only',
  },
  keyType: {
    type: 'string',
    choices: KEY_TYPES,
    default: 'ecdsa-p256',
    description: 'key type of new roots and intermediates; existing ones stay',
  },
  intermediate: {
    type: 'boolean',
    default: false,
    description: 'whether new roots sign through an intermediate',
  },
} as const satisfies PluginOptions

export const embedded = defineCAPlugin({
  apiVersion: 1,
  name: 'embedded',
  capabilities: { roots: 'push', ttl: 'honoured', san: 'caller', dnsNames: true, keyTypes: KEY_TYPES },
  options: embeddedOptions,
  async create({ clock, trustDomain, log }, options) {
    const warn = (message: string) => log.warn(message)
    const authority = await CertificateAuthority.open({
      ...options,
      clock,
      trustDomain,
      warn,
    })
    const place = options.directory === undefined ? 'in memory' : `in ${options.directory}`
    const root = authority.isNew ? 'has made a new root' : 'has the root that it had before'
    log.warn(`The embedded CA ${root}, and keeps its key ${place}: it is for trying things out, not for production.`)
    return new EmbeddedClient(authority)
  },
})

export { embedded as plugin }
