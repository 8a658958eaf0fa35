/** Options of the `vault` plugin. */
import type { ConfigOf, PluginOptions } from '@livery/core/plugin'
import { addressProblem } from '../../transport/https-json.ts'

export const vaultOptions = {
  address: {
    type: 'string',
    required: true,
    problem: addressProblem,
    description: 'the URL of the server, or of an agent or a proxy in front of it',
  },
  role: {
    type: 'string',
    required: true,
    problem: nameProblem,
    description: 'the role of the PKI secrets engine that signs',
  },
  mount: {
    type: 'string',
    default: 'pki',
    problem: pathProblem,
    description: 'where the PKI secrets engine is mounted, without `/v1/`',
  },
  issuer: {
    type: 'string',
    problem: nameProblem,
    description: 'the name or ID of the issuer that signs; default: the issuer of the role',
  },
  namespace: {
    type: 'string',
    problem: pathProblem,
    description: 'sent as `X-Vault-Namespace`',
  },
  kubernetes: {
    type: 'object',
    description: 'log in with the token as a Kubernetes service account; absent: the token is a Vault token',
    options: {
      role: { type: 'string', required: true, problem: nameProblem, description: 'the role of the auth method' },
      mount: {
        type: 'string',
        default: 'kubernetes',
        problem: pathProblem,
        description: 'where the auth method is mounted, without `auth/`',
      },
    },
  },
} as const satisfies PluginOptions

export type VaultConfig = ConfigOf<typeof vaultOptions>

function nameProblem(name: string): string | undefined {
  return /^[\w.-]+$/.test(name) && !/^\.+$/.test(name)
    ? undefined
    : 'is not a name. Write it without slashes and spaces'
}

function pathProblem(path: string): string | undefined {
  return path.split('/').every(part => nameProblem(part) === undefined)
    ? undefined
    : 'is not a path. Write it like pki or team/pki, without slashes at its ends'
}
