/** Options of the `step-ca` plugin, the checks that only it can make, and the resulting proof. */
import {
  type AgentKey,
  type ConfigOf,
  type CredentialSource,
  OptionError,
  type PluginOptions,
} from '@livery/core/plugin'
import { addressProblem } from '../../transport/https-json.ts'

export const stepCaOptions = {
  address: {
    type: 'string',
    required: true,
    problem: addressProblem,
    description:
      "the URL of the CA. Its host must be one of the `dnsNames` in the CA's configuration: tokens are made out to it",
  },
  provisioner: {
    type: 'string',
    description:
      'the name of the JWK provisioner, with `jwkFile`; without it, the token of `credentials` is sent (OIDC, K8sSA)',
  },
  jwkFile: {
    type: 'path',
    description:
      "the provisioner's private key: a JWK, or one with a password, as compact text (`encryptedKey` of ca.json) or JSON (`step crypto jwk create`)",
  },
  passwordFile: {
    type: 'path',
    description: 'the password of an encrypted `jwkFile`; white space at its end is left out',
  },
  fingerprint: {
    type: 'string',
    problem: value =>
      /^[0-9a-f]{64}$/i.test(value.replaceAll(':', ''))
        ? undefined
        : 'is not a SHA-256. Write the 64 hexadecimal digits that "step certificate fingerprint" shows',
    description:
      'the SHA-256 of the root, in place of `rootCert`: the root is fetched from the CA and kept, as by `step ca bootstrap`',
  },
} as const satisfies PluginOptions

export type StepCaConfig = ConfigOf<typeof stepCaOptions>

/** The proof of identity of a call. */
export type Proof =
  | { readonly kind: 'key'; readonly provisioner: string; readonly keyFile: string; readonly passwordFile?: string }
  | { readonly kind: 'token'; readonly credentials: CredentialSource }

export function checkConfig(config: StepCaConfig, siblings: ReadonlySet<AgentKey>): void {
  const { fingerprint, provisioner, jwkFile, passwordFile } = config
  if (fingerprint !== undefined && (siblings.has('rootCert') || siblings.has('clientCertificate')))
    throw new OptionError(
      'fingerprint',
      `Cannot use fingerprint "${fingerprint}": rootCert or clientCertificate is set as well. Leave fingerprint or those out.`,
    )
  if (fingerprint !== undefined && new URL(config.address).protocol !== 'https:')
    throw new OptionError(
      'fingerprint',
      `Cannot use fingerprint "${fingerprint}": address has no TLS. Write address with https.`,
    )
  if (provisioner !== undefined && jwkFile === undefined)
    throw new OptionError(
      'provisioner',
      `Cannot use provisioner ${JSON.stringify(provisioner)}: jwkFile is missing. Set jwkFile to the file with its private key, or leave provisioner out to send the token of credentials.`,
    )
  if (jwkFile !== undefined && provisioner === undefined)
    throw new OptionError(
      'jwkFile',
      `Cannot use jwkFile "${jwkFile}": provisioner is missing. Set provisioner to the name that the CA knows the key by.`,
    )
  if (passwordFile !== undefined && jwkFile === undefined)
    throw new OptionError(
      'passwordFile',
      `Cannot use passwordFile "${passwordFile}": jwkFile is missing. Set jwkFile, or leave passwordFile out.`,
    )
}

/** Throws a `TypeError` if the configuration has no proof. */
export function proofOf(config: StepCaConfig, credentials: CredentialSource | undefined): Proof {
  const { provisioner, jwkFile, passwordFile } = config
  if (provisioner !== undefined && jwkFile !== undefined)
    return { kind: 'key', provisioner, keyFile: jwkFile, ...(passwordFile !== undefined && { passwordFile }) }
  if (credentials) return { kind: 'token', credentials }
  throw new TypeError(
    'Cannot use step-ca: it has no proof of identity. Set provisioner and jwkFile, or tokenFile or credentials for a token that a provisioner of the CA accepts.',
  )
}
