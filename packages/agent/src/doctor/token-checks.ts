/** The files with tokens for the CA: are they readable, for which audience, and until when. Never shows a token. */
import { stat } from 'node:fs/promises'
import { MIN_SECRET_LENGTH, readSmallFile, scrub, systemErrorCode, UntrustedPathError } from '@livery/core/plugin'
import * as v from 'valibot'
import type { CASection } from '../config/ca-section.ts'
import type { Config } from '../config/load.ts'
import { CLOCK_REMEDY } from '../diagnosis/ca-clock.ts'
import type { CAResult } from './ca-check.ts'
import { type Finding, ok, warning, wrong } from './finding.ts'

/** A range can have ten thousand. */
const MAX_TOKENS = 20
/** The same limit as in a source of credentials. */
const MAX_BYTES = 65_536

export async function tokenFindings(config: Config, ca: CAResult, now: number): Promise<Finding[]> {
  const files = new Set([...filesOf(config.ca), ...config.identities.flatMap(({ tokenFile }) => tokenFile ?? [])])
  const findings: Finding[] = []
  for (const file of [...files].slice(0, MAX_TOKENS)) findings.push(...(await findingsOf(file, { config, ca, now })))
  return findings
}

/** `tokenFile`, and the paths of a source of credentials. */
function filesOf({ tokenFile, credentials, members = [] }: CASection): readonly string[] {
  const named = Object.entries(credentials?.options ?? {}).flatMap(([key, value]) => {
    const isPath = credentials?.plugin.options[key]?.type === 'path' && /token|^file$/i.test(key)
    return isPath && typeof value === 'string' ? [value] : []
  })
  return [...(tokenFile === undefined ? [] : [tokenFile]), ...named, ...members.flatMap(filesOf)]
}

interface Context {
  readonly config: Config
  readonly ca: CAResult
  /** Milliseconds since the epoch. */
  readonly now: number
}

async function findingsOf(file: string, context: Context): Promise<Finding[]> {
  const read = await readToken(file)
  if ('unreadable' in read) return [read.unreadable]
  const claims = claimsOf(read.token)
  const findings = [read.exposure, ...(claims ? claimFindings(file, claims, context) : [])].filter(
    each => each !== undefined,
  )
  if (findings.length > 0) return findings
  return [ok('token', file, claims ? describe(claims) : 'it can be read; only the CA knows what is in it')]
}

type ReadToken = { readonly token: string; readonly exposure: Finding | undefined } | { readonly unreadable: Finding }

async function readToken(file: string): Promise<ReadToken> {
  try {
    const token = (await readSmallFile(file, MAX_BYTES)).toString('utf8').trim()
    if (token === '') return { unreadable: wrong('token', file, 'it is empty', 'Have a token written there') }
    if (token.length < MIN_SECRET_LENGTH)
      return {
        unreadable: wrong(
          'token',
          file,
          `it has fewer than ${MIN_SECRET_LENGTH} characters`,
          'Have a whole one written there',
        ),
      }
    return { token, exposure: await exposureOf(file) }
  } catch (error) {
    const text = `it cannot be read: ${scrub(error)}`
    if (error instanceof UntrustedPathError) return { unreadable: wrong('token', file, text, 'Run what it says') }
    const isDenied = ['EACCES', 'EPERM'].includes(systemErrorCode(error) ?? '')
    const remedy = isDenied
      ? "Let the agent's user read it, or run this command as that user"
      : 'Mount a token there, or correct tokenFile'
    return { unreadable: wrong('token', file, text, remedy) }
  }
}

const OTHERS_READ = 0o004

/** Kubelet mounts tokens readable for every user of the container: that exposes them to one pod only. */
async function exposureOf(file: string): Promise<Finding | undefined> {
  const { mode } = await stat(file)
  if ((mode & OTHERS_READ) === 0 || file.startsWith('/var/run/secrets/')) return undefined
  return warning('token', file, 'every user of this machine can read it', `Run: chmod o-r ${file}`)
}

/** Seconds since the epoch that a `Date` can hold. */
const time = v.optional(v.pipe(v.number(), v.minValue(-8.64e12), v.maxValue(8.64e12)))
/** RFC 7519, section 4.1. */
const claims = v.object({
  aud: v.optional(v.union([v.string(), v.array(v.string())])),
  exp: time,
  nbf: time,
  iat: time,
})

interface Claims {
  readonly audiences: readonly string[]
  /** Milliseconds since the epoch. */
  readonly expires: number | undefined
  readonly begins: number | undefined
}

/** `undefined` for a token that is not a JWT. */
function claimsOf(token: string): Claims | undefined {
  const [, payload, signature, ...rest] = token.split('.')
  if (payload === undefined || signature === undefined || rest.length > 0) return undefined
  try {
    const { aud = [], exp, nbf, iat } = v.parse(claims, JSON.parse(Buffer.from(payload, 'base64url').toString('utf8')))
    const begins = nbf ?? iat
    return {
      audiences: [aud].flat().map(each => scrub(each, { maxLength: 200 })),
      expires: exp === undefined ? undefined : exp * 1000,
      begins: begins === undefined ? undefined : begins * 1000,
    }
  } catch {
    return undefined
  }
}

/** Kubelet renews tokens when a fifth of their life is left: an hour's token at twelve minutes. */
const SOON_MS = 300_000
const MAX_OFFSET_MS = 60_000

function claimFindings(file: string, { audiences, expires, begins }: Claims, { config, ca, now }: Context): Finding[] {
  const findings: Finding[] = []
  const at = (ms: number) => new Date(ms).toISOString()
  if (expires !== undefined && expires <= now)
    findings.push(
      wrong(
        'token',
        file,
        `it expired at ${at(expires)}`,
        'Have it renewed: see that kubelet, or the program that writes it, runs',
      ),
    )
  else if (expires !== undefined && expires - now < SOON_MS)
    findings.push(
      warning('token', file, `it expires at ${at(expires)}`, 'See that kubelet, or the program that writes it, runs'),
    )
  if (begins !== undefined && begins - now > MAX_OFFSET_MS)
    findings.push(
      wrong('clock', file, `it is valid only from ${at(begins)}: the clock here is behind its issuer's`, CLOCK_REMEDY),
    )
  const audience = audienceFinding(file, audiences, { config, ca })
  return audience ? [...findings, audience] : findings
}

/** The audience that istiod takes, unless its TOKEN_AUDIENCES says otherwise. */
const ISTIO_AUDIENCE = 'istio-ca'

/** Only the CA knows which audience it takes: a token that it took has the right one. */
function audienceFinding(
  file: string,
  audiences: readonly string[],
  { config, ca }: Pick<Context, 'config' | 'ca'>,
): Finding | undefined {
  if (ca.hasIssued) return undefined
  const isIstio = config.ca.plugin.name === 'citadel'
  const isExpected = isIstio && audiences.includes(ISTIO_AUDIENCE)
  const text = `it is for ${audiences.length === 0 ? 'no audience' : audiences.join(', ')}`
  const remedy = isIstio
    ? `Mount a token whose audience is ${ISTIO_AUDIENCE} (projected volume, serviceAccountToken.audience), or what TOKEN_AUDIENCES of istiod says`
    : 'Compare it with the audience that the CA takes'
  if (ca.code === 'unauthenticated' && !isExpected)
    return wrong('token', file, `${text}, and the CA did not take it`, remedy)
  return isIstio && !isExpected
    ? warning('token', file, `${text}, and istiod takes ${ISTIO_AUDIENCE}`, remedy)
    : undefined
}

function describe({ audiences, expires }: Claims): string {
  const audience = audiences.length === 0 ? '' : ` for ${audiences.join(', ')}`
  return `a JWT${audience}${expires === undefined ? '' : `, until ${new Date(expires).toISOString()}`}`
}
