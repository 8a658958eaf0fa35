/** The verdicts of Go's crypto/x509 and OpenSSL on chains: the other ends of the connections that the chains are for. */
import { execFile, spawn } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { derToPem } from '@livery/core'

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
  const folder = await mkdtemp(join(tmpdir(), 'livery-openssl-'))
  try {
    const answers: string[] = []
    for (let first = 0; first < questions.length; first += AT_ONCE) {
      const some = questions.slice(first, first + AT_ONCE)
      answers.push(...(await Promise.all(some.map((question, index) => askOpenSslOne(folder, index, question, flags)))))
    }
    return answers
  } finally {
    await rm(folder, { recursive: true })
  }
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

const base64 = (der: Buffer) => der.toString('base64')
