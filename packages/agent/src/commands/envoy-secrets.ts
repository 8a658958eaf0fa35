/**
 * The secrets that an Envoy has from SDS, read from its admin endpoint:
 * https://www.envoyproxy.io/docs/envoy/latest/operations/admin#get--config_dump
 * Only `/config_dump` has the names, all roots, and what Envoy still waits for; `/certs` has the first root of each.
 */
import { X509Certificate } from 'node:crypto'
import { hideUserinfo, splitCertificates } from '@livery/core/plugin'
import * as v from 'valibot'
import { plainAddress } from '../schema/admin-address.ts'
import { formatListenAddress, type ListenAddress, parseListenAddress } from '../schema/values.ts'
import { exchange, firstLine } from './admin-client.ts'
import { UsageError } from './exit-code.ts'

/** A secret of Envoy. The texts in it are Envoy's. */
export type EnvoySecret = { readonly name: string } & (
  | { readonly kind: 'certificate'; readonly leaf: X509Certificate }
  /** Keyed by trust domain; `''` where Envoy verifies all its peers with the same roots. */
  | { readonly kind: 'roots'; readonly roots: ReadonlyMap<string, readonly X509Certificate[]> }
  /** Node cannot read a certificate in it. */
  | { readonly kind: 'unreadable' }
  /** Envoy has asked for it, and has no answer. */
  | { readonly kind: 'waiting' }
  | { readonly kind: 'other' }
)

/** `http://host:port`, `host:port`, a port or `unix:/path`. Throws a `UsageError`. */
export function parseEnvoyAdmin(text: string): ListenAddress {
  const address = parseListenAddress(plainAddress(text))
  if (address) return address
  throw new UsageError(
    `--envoy-admin ${JSON.stringify(hideUserinfo(text))} is not the address of an admin endpoint. Write such as http://127.0.0.1:15000.`,
  )
}

/** Rejects with an `Error` where no Envoy answers. */
export async function readEnvoySecrets(address: ListenAddress): Promise<readonly EnvoySecret[]> {
  const [active, warming] = await Promise.all(
    ['dynamic_active_secrets', 'dynamic_warming_secrets'].map(resource => dumpOf(address, resource)),
  )
  return [
    ...(active ?? []).map(readableSecret),
    ...(warming ?? []).map(({ name }) => ({ name, kind: 'waiting' }) as const),
  ]
}

const bytes = v.object({ inline_bytes: v.optional(v.string()), inline_string: v.optional(v.string()) })
const bundle = v.object({ name: v.string(), trust_bundle: v.optional(bytes) })
const dumpedSecret = v.object({
  name: v.string(),
  secret: v.optional(
    v.object({
      tls_certificate: v.optional(v.object({ certificate_chain: v.optional(bytes) })),
      validation_context: v.optional(
        v.object({
          trusted_ca: v.optional(bytes),
          custom_validator_config: v.optional(
            v.object({ typed_config: v.optional(v.object({ trust_domains: v.optional(v.array(bundle)) })) }),
          ),
        }),
      ),
    }),
  ),
})
const dump = v.strictObject({ configs: v.optional(v.array(dumpedSecret), []) })

type DumpedSecret = v.InferOutput<typeof dumpedSecret>

async function dumpOf(address: ListenAddress, resource: string): Promise<readonly DumpedSecret[]> {
  const who = `Envoy at ${formatListenAddress(address)}`
  const remedy = 'Start it with an admin address, or name that with --envoy-admin'
  const path = `/config_dump?resource=${resource}`
  const { status, body } = await exchange({ address, method: 'GET', path, who, remedy })
  if (status !== 200) throw new Error(`${who} answered ${status} to ${path}: ${firstLine(body)}`)
  try {
    return v.parse(dump, JSON.parse(body)).configs
  } catch (cause) {
    throw new Error(`The program at ${formatListenAddress(address)} is not an Envoy: ${remedy}.`, { cause })
  }
}

function readableSecret(dumped: DumpedSecret): EnvoySecret {
  try {
    return secretOf(dumped)
  } catch {
    return { name: dumped.name, kind: 'unreadable' }
  }
}

function secretOf({ name, secret = {} }: DumpedSecret): EnvoySecret {
  const { tls_certificate: certificate, validation_context: context } = secret
  const [leaf] = certificatesIn(certificate?.certificate_chain)
  if (leaf) return { name, kind: 'certificate', leaf }
  const domains = context?.custom_validator_config?.typed_config?.trust_domains
  if (domains)
    return { name, kind: 'roots', roots: new Map(domains.map(each => [each.name, certificatesIn(each.trust_bundle)])) }
  if (context?.trusted_ca) return { name, kind: 'roots', roots: new Map([['', certificatesIn(context.trusted_ca)]]) }
  return { name, kind: 'other' }
}

function certificatesIn(source: v.InferOutput<typeof bytes> | undefined): readonly X509Certificate[] {
  const text = source?.inline_string ?? Buffer.from(source?.inline_bytes ?? '', 'base64').toString('latin1')
  return splitCertificates(text).map(pem => new X509Certificate(pem))
}
