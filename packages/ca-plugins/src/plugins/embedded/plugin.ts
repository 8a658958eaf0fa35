/** The `embedded` plugin: a certificate authority in the same process, for trials. */
import { defineCAPlugin, KEY_TYPES } from '@livery/core/plugin'
import { CertificateAuthority } from './certificate-authority.ts'
import { EmbeddedClient } from './client.ts'
import { embeddedOptions } from './config.ts'

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
