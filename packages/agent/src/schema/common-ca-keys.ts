/** The agent's own keys of the section `ca`, whatever the plugin. */
import type { PluginNeed, PluginOptions } from '@livery/core/plugin'
import * as v from 'valibot'
import { Fault } from './fault.ts'
import { optionsSchema } from './plugin-schema.ts'
import { faultMessage, list, text } from './schema-parts.ts'
import { rootCert } from './values.ts'

export const TLS_KEYS = {
  rootCert: { type: 'path', description: "the roots that verify the CA's certificate: a file, or system" },
  clientCertificate: {
    type: 'object',
    description: 'the certificate that this client presents: a PEM chain and its key',
    options: {
      certFile: { type: 'path', required: true, description: 'the chain' },
      keyFile: { type: 'path', required: true, description: 'the key' },
    },
  },
  tls: {
    type: 'object',
    description: 'the TLS settings of its connections',
    options: {
      groups: {
        type: 'list',
        description:
          'the key exchange groups that a connection may use, the preferred one first: `[X25519MLKEM768]` for a CA that takes only post-quantum ones. Without it, the groups of Node.js, with X25519MLKEM768 first',
      },
    },
  },
} as const satisfies PluginOptions

/** A group that this Node.js has. */
const group = text(
  'name of a group',
  input => {
    try {
      // OpenSSL's list of groups gives other signs a meaning.
      if (!/^[\w-]+$/.test(input)) throw new TypeError('not a name')
      // An import would load it at each start.
      process.getBuiltinModule('node:tls').createSecureContext({ ecdhCurve: input })
      return input
    } catch {
      return new Fault('is no key exchange group of this Node.js', 'Write names such as X25519MLKEM768, X25519, P-256')
    }
  },
  'Write a name such as X25519MLKEM768',
)

const groups = v.pipe(
  list(group),
  v.minLength(1, faultMessage(new Fault('is empty', 'Write one group or more, or remove the line'))),
)

/** Forms that replace the forms of the same keys above. */
export const TLS_FORMS = { rootCert, tls: optionsSchema(TLS_KEYS.tls.options, undefined, { groups }) }

export const PLUGIN_KEY = {
  plugin: { type: 'string', required: true, description: 'a built-in name, or a module' },
} as const satisfies PluginOptions

/** `options`: the source's options, which stand beside its name. */
export function credentialKeys(options: PluginOptions): PluginOptions {
  return {
    tokenFile: { type: 'path', description: 'the file with the token for the CA' },
    credentials: {
      type: 'object',
      description: 'where tokens come from, other than tokenFile',
      options: {
        source: { type: 'string', required: true, description: 'a built-in name, or a module' },
        ...options,
      },
    },
  }
}

/** The agent reads the members one by one, since each has its own plugin's keys. */
export const MEMBERS_KEY = {
  cas: {
    type: 'objects',
    required: true,
    description: 'the CAs, the preferred one first, each with its `plugin` and the keys of that plugin',
    options: {},
  },
} as const satisfies PluginOptions

/** The keys that the agent handles itself, by the need that a plugin declares for them. */
export const NEEDED_KEYS: Readonly<Record<PluginNeed, readonly string[]>> = {
  tls: Object.keys(TLS_KEYS),
  credentials: Object.keys(credentialKeys({})),
  members: Object.keys(MEMBERS_KEY),
}
