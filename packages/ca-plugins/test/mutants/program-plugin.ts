/** A plugin that runs a program for each certificate, as many wrap the command of their CA; the tests of the kit mutate it. */
import { execFile } from 'node:child_process'
import {
  type CAClient,
  type CAContext,
  type CAErrorCode,
  type CertificateRequest,
  type ConfigOf,
  defineCAPlugin,
  type IssuedCertificate,
  type PluginOptions,
  untilAborted,
  withDeadline,
} from '@livery/core/plugin'
import { badAnswer, ChainReader, Closable, caError } from '../../src/support.ts'

const options = {
  command: { type: 'list', required: true, description: 'the program and its arguments' },
  timeout: { type: 'duration', default: '10s', description: 'how long one call may take' },
} as const satisfies PluginOptions

export const plugin = defineCAPlugin({
  apiVersion: 1,
  name: 'program',
  capabilities: { roots: 'none', ttl: 'honoured', san: 'csr', keyTypes: ['ecdsa-p256'] },
  needs: ['credentials'],
  options,
  create: (context, config) => new ProgramClient(context, config),
})

const MAX_ANSWER_BYTES = 262_144
/** By the program's status. */
const CODES: Readonly<Record<number, CAErrorCode>> = {
  1: 'invalid-csr',
  2: 'unauthenticated',
  3: 'denied',
  4: 'ttl-too-long',
  5: 'rate-limited',
}

class ProgramClient implements CAClient {
  readonly #context: CAContext
  readonly #config: ConfigOf<typeof options>
  readonly #closable = new Closable('the program')
  readonly #chains = new ChainReader()

  constructor(context: CAContext, config: ConfigOf<typeof options>) {
    this.#context = context
    this.#config = config
  }

  async issue({ identity, csr, ttlSeconds, tokenFile, signal: own }: CertificateRequest): Promise<IssuedCertificate> {
    const signal = this.#closable.until(own)
    const action = `get a certificate for ${identity}`
    const { pem } = await untilAborted(csr(), signal)
    const credential = await this.#context.credentials?.get({ signal, ...(tokenFile !== undefined && { tokenFile }) })
    const input = JSON.stringify({ csr: pem, ttlSeconds, token: credential?.token })
    const output = await withDeadline(
      { clock: this.#context.clock, ms: this.#config.timeout, error: () => this.#late(action), signal },
      ending => this.#run(input, action, ending),
    )
    return { chain: this.#chains.read(this.#read(output, action), { action, remedy: 'Check the program' }).chain }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closable.close()
  }

  #run(input: string, action: string, signal: AbortSignal): Promise<string> {
    const [file = '', ...args] = this.#config.command
    const { promise, resolve, reject } = Promise.withResolvers<string>()
    const settings = { signal, killSignal: 'SIGKILL', maxBuffer: MAX_ANSWER_BYTES } as const
    const child = execFile(file, args, settings, (error, stdout, stderr) => {
      if (!error) return resolve(stdout)
      // Without the words of the program: they may quote the token.
      const reason = `it ended with ${error.code ?? error.signal} and ${stderr.length} characters of errors`
      const isTooLong = error.code === 'ERR_CHILD_PROCESS_STDIO_MAXBUFFER'
      const code = isTooLong ? 'bad-response' : (CODES[Number(error.code)] ?? 'unavailable')
      reject(caError(code, { action, reason, remedy: 'See the log of the CA' }))
    })
    child.stdin?.on('error', () => {})
    child.stdin?.end(input)
    return promise
  }

  #read(output: string, action: string): readonly string[] {
    try {
      const { chain } = JSON.parse(output)
      return chain
    } catch {
      throw badAnswer({ action, remedy: 'Check the program' }, 'is not JSON')
    }
  }

  #late(action: string): Error {
    return caError('timeout', { action, reason: 'the program did not end in time', remedy: 'It is run again' })
  }
}
