/** The verdicts of Go's crypto/x509, OpenSSL and Envoy on chains: the other ends of the connections that the chains are for. */
import { execFile, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { derToPem } from '@livery/core/plugin'
import { TemporaryFolder } from '@livery/test-support'

export interface Question {
  /** DER, leaf first. */
  readonly chain: readonly Buffer[]
  readonly roots: readonly Buffer[]
  /** Milliseconds since the epoch. */
  readonly now: number
}

/** One answer per question: empty, or the reason against it. One process for all. */
export async function askGo(questions: readonly Question[]): Promise<readonly string[]> {
  const env = { ...process.env, GOTOOLCHAIN: 'local', GOPROXY: 'off', GOFLAGS: '', GOWORK: 'off' }
  const go = spawn('go', ['run', '.'], {
    cwd: join(import.meta.dirname, 'go-verify'),
    env,
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const lines = questions.map(({ chain, roots, now }) =>
    JSON.stringify({ chain: chain.map(base64), roots: roots.map(base64), now: Math.floor(now) }),
  )
  go.stdin.end(lines.join('\n'))
  const answers = (await text(go.stdout)).split('\n').slice(0, -1)
  if (answers.length !== questions.length) throw new Error(`go answered ${answers.length} of ${questions.length}`)
  return answers
}

/** The same by `openssl verify`, two processes per question. */
export async function askOpenSsl(
  questions: readonly Question[],
  ...flags: readonly string[]
): Promise<readonly string[]> {
  using folder = new TemporaryFolder()
  const answers: string[] = []
  for (let first = 0; first < questions.length; first += AT_ONCE) {
    const some = questions.slice(first, first + AT_ONCE)
    const asked = some.map((question, index) => askOpenSslOne(folder.path, index, question, flags))
    answers.push(...(await Promise.all(asked)))
  }
  return answers
}

const AT_ONCE = 4

async function askOpenSslOne(
  folder: string,
  index: number,
  { chain, roots, now }: Question,
  flags: readonly string[],
): Promise<string> {
  const pem = (ders: readonly Buffer[]) => ders.map(der => derToPem(der, 'CERTIFICATE')).join('')
  const [leaf, rest, anchors] = ['leaf', 'rest', 'roots'].map(name => join(folder, `${index}-${name}.pem`)) as [
    string,
    string,
    string,
  ]
  await Promise.all([
    writeFile(leaf, pem(chain.slice(0, 1))),
    writeFile(rest, pem(chain.slice(1))),
    writeFile(anchors, pem(roots)),
  ])
  const untrusted = chain.length > 1 ? ['-untrusted', rest] : []
  const time = `${Math.floor(now / 1_000)}`
  for (const purpose of ['sslserver', 'sslclient']) {
    const args = ['verify', ...flags, '-partial_chain', '-no-CApath', '-no-CAstore', '-attime', time]
    try {
      await promisify(execFile)('openssl', [...args, '-purpose', purpose, '-CAfile', anchors, ...untrusted, leaf])
    } catch (error) {
      return reasonOf(error)
    }
  }
  return ''
}

function reasonOf(error: unknown): string {
  const { stderr = '' } = error as { readonly stderr?: string }
  return (
    stderr
      .split('\n')
      .filter(line => line.startsWith('error '))
      .join('; ') ||
    stderr ||
    String(error)
  )
}

/** As the set-up of the tests fetches it. */
const ENVOY = join(
  import.meta.dirname,
  '..',
  '..',
  '..',
  '.cache',
  `envoy-${process.env['LIVERY_ENVOY_VERSION'] ?? '1.40.0'}`,
)

export const noEnvoy = existsSync(ENVOY)
  ? false
  : 'no Envoy: the test set-up could not fetch it (npm run envoy says why)'

/** The secrets of one TLS context: PEM. */
interface EnvoySecrets {
  readonly roots: readonly string[]
  /** Its own certificate. */
  readonly pair?: { readonly chain: string; readonly key: string }
}

/** The places of the secrets that Envoy does not load, and why, up to `limit` of them. One process where it loads all. */
export async function askEnvoy(all: readonly EnvoySecrets[], limit = 8): Promise<ReadonlyMap<number, string>> {
  using folder = new TemporaryFolder()
  const refused = new Map<number, string>()
  /** Halves what is refused until one is left. */
  const search = async (places: readonly number[]): Promise<void> => {
    if (refused.size >= limit || places.length === 0) return
    const reason = await validate(
      folder.path,
      places.flatMap(place => all[place] ?? []),
    )
    if (reason === '') return
    const half = Math.ceil(places.length / 2)
    if (places.length === 1) for (const place of places) refused.set(place, reason)
    else for (const part of [places.slice(0, half), places.slice(half)]) await search(part)
  }
  await search([...all.keys()])
  return refused
}

/** Empty, or why Envoy refuses the configuration that has all of them. */
async function validate(folder: string, all: readonly EnvoySecrets[]): Promise<string> {
  const typed = '@type'
  const clusters = all.map(({ roots, pair }, index) => ({
    name: `${index}`,
    type: 'STATIC',
    load_assignment: { cluster_name: `${index}` },
    transport_socket: {
      name: 'tls',
      typed_config: {
        [typed]: 'type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext',
        common_tls_context: {
          ...(pair && {
            tls_certificates: [
              { certificate_chain: { inline_string: pair.chain }, private_key: { inline_string: pair.key } },
            ],
          }),
          validation_context: { trusted_ca: { inline_string: roots.join('') } },
        },
      },
    },
  }))
  const file = join(folder, 'envoy.json')
  await writeFile(file, JSON.stringify({ static_resources: { clusters } }))
  try {
    await promisify(execFile)(ENVOY, ['--mode', 'validate', '-c', file, '-l', 'error', '--disable-hot-restart'])
    return ''
  } catch (error) {
    const { stderr = '', stdout = '' } = error as { readonly stderr?: string; readonly stdout?: string }
    const text = `${stderr}${stdout}`
    return /(?:Failed|Unable|error)[^\n]*/.exec(text.slice(text.indexOf('configuration')))?.[0] ?? text
  }
}

const base64 = (der: Buffer) => der.toString('base64')
