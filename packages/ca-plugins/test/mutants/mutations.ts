/** Breaches of a plugin's duties, each as a change of a source, and the case of the kit that finds it. */
import type { Change, SUBJECTS } from './subjects.ts'

export interface Mutation {
  readonly of: keyof typeof SUBJECTS
  /** As in "a plugin that …". */
  readonly that: string
  readonly changes: readonly Change[]
  /** How the name of the case begins. */
  readonly caughtBy: string
  /** What the message must say where the plugin's own error does not. */
  readonly says?: RegExp
  /** It takes as long as thousands of requests: it is tried with LIVERY_SLOW only. */
  readonly slow?: true
}

const CALL = 'const { pem } = await untilAborted(request.csr(), signal)'

const https: readonly Omit<Mutation, 'of'>[] = [
  {
    that: 'reads answers of 2 GB',
    changes: [['MAX_ANSWER_BYTES = 262_144', 'MAX_ANSWER_BYTES = 2_000_000_000']],
    caughtBy: 'answers: endless',
  },
  {
    that: 'waits ten minutes in place of its limit',
    changes: [['timeoutMs: timeout', 'timeoutMs: timeout * 0 + 600_000']],
    caughtBy: 'errors: a CA that never answers',
    says: /must run by context\.clock/,
  },
  {
    that: 'drops the second intermediate',
    changes: [['return { chain, roots', 'return { chain: chain.slice(0, 2), roots']],
    caughtBy: 'contract: a certificate is for the identity',
    says: /issue\(\) gave 2 certificates, the CA's answer had 3: pass on every intermediate/,
  },
  {
    that: 'wants an intermediate in each chain',
    changes: [
      [
        'return { chain, roots',
        "if (chain.length < 2) throw badAnswer({ action, remedy: REMEDY }, 'has no intermediate')\n    return { chain, roots",
      ],
    ],
    caughtBy: 'contract: a certificate that the root signed',
  },
  {
    that: 'rounds the wish to minutes',
    changes: [['body: { csr: pem, ttlSeconds }', 'body: { csr: pem, ttlSeconds: Math.round(ttlSeconds / 60) * 60 }']],
    caughtBy: 'ttl: a wish reaches',
    says: /asked for 629 s, but the CA was asked for 600 s/,
  },
  {
    that: 'calls each refusal local',
    changes: [
      ["      remedy: 'See the log of the CA',\n", "      remedy: 'See the log of the CA',\n      local: true,\n"],
    ],
    caughtBy: 'errors: "denied"',
  },
  {
    that: 'keeps a text of each request',
    changes: [
      ['  readonly #url: string\n', '  readonly #url: string\n  readonly #kept: string[] = []\n'],
      [CALL, `${CALL}\n    this.#kept.push(pem.slice(40, 80) + this.#kept.length)`],
    ],
    caughtBy: 'memory: not even a short text',
    slow: true,
  },
  {
    that: 'keeps each CSR',
    changes: [
      ['  readonly #url: string\n', '  readonly #url: string\n  readonly #kept: Uint8Array[] = []\n'],
      [CALL, `${CALL}\n    this.#kept.push(Buffer.from(pem + pem))`],
    ],
    caughtBy: 'memory: requests and answers',
    says: /bytes with each certificate, often by a listener left on a signal: use untilAborted/,
    slow: true,
  },
  {
    that: 'refuses the hundred and first call in flight',
    changes: [
      ['  readonly #url: string\n', '  readonly #url: string\n  #calls = 0\n'],
      [
        '    const answer = await this.#http.request(request)\n',
        "    if (this.#calls >= 100) throw caError('rate-limited', { action: request.action, reason: 'busy', remedy: 'Wait' })\n    this.#calls++\n    const answer = await this.#http.request(request).finally(() => this.#calls--)\n",
      ],
    ],
    caughtBy: 'parallel: more than a hundred',
  },
  {
    that: 'keeps its token',
    changes: [
      ['  readonly #url: string\n', '  readonly #url: string\n  #kept: string | undefined\n'],
      ['    return credential?.token\n', '    this.#kept ??= credential?.token\n    return this.#kept\n'],
    ],
    caughtBy: 'token: each call',
  },
  {
    that: 'does not hand the signal on',
    changes: [['this.#closable.until(request.signal)', 'this.#closable.until(new AbortController().signal)']],
    caughtBy: 'cancellation: an abort in flight rejects',
  },
  { that: 'takes a denial for an outage', changes: [["  403: 'denied',\n", '']], caughtBy: 'errors: "denied"' },
  {
    that: 'loses how long to wait',
    changes: [['      retryAfterMs: retryAfterOf(answer, this.#context.clock),\n', '']],
    caughtBy: 'errors: retryAfterMs',
  },
  {
    that: 'asks again by itself',
    changes: [
      [
        '    const answer = await this.#http.request(request)\n',
        '    let answer = await this.#http.request(request)\n    if (answer.status === 503) answer = await this.#http.request(request)\n',
      ],
    ],
    caughtBy: 'errors: "unavailable"',
  },
  {
    that: 'forgets the token file',
    changes: [['await this.#token(tokenFile, signal)', 'tokenFile ? undefined : await this.#token(tokenFile, signal)']],
    caughtBy: 'token: the token of a request with a tokenFile',
    says: /no token was sent.*tokenFile/,
  },
  {
    that: 'passes an empty chain on',
    changes: [
      ["this.#chains.read(texts(answer['chain']), { action, remedy: REMEDY })", "{ chain: texts(answer['chain']) }"],
    ],
    caughtBy: 'answers: empty-chain',
    says: /resolved with 0 certificates/,
  },
  {
    that: 'chokes on garbage in a callback',
    changes: [
      [
        '    const answer = await this.#http.request(request)\n',
        "    const answer = await this.#http.request(request)\n    if (answer.text.startsWith('<')) await new Promise(() => setImmediate(() => JSON.parse(answer.text)))\n",
      ],
    ],
    caughtBy: 'answers: garbage',
    says: /the harness threw, at \/.*ca-plugin\/index\.ts\S*:\d+:\d+, in a callback.*SyntaxError.*\n.*garbage: <!DOCTYPE/,
  },
  {
    that: 'answers an abort with its own AbortError',
    changes: [
      [
        '    const answer = await this.#http.request(request)\n',
        "    const answer = await this.#http.request(request).catch(error => {\n      throw request.signal.aborted ? new DOMException('', 'AbortError') : error\n    })\n",
      ],
    ],
    caughtBy: 'cancellation: an abort in flight rejects',
    says: /in place of signal\.reason/,
  },
  {
    that: 'lists its newest root alone',
    changes: [
      [
        "return rootsInBundle(texts(answer['roots']).join('\\n'), { action, remedy: REMEDY })",
        "return rootsInBundle(texts(answer['roots']).join('\\n'), { action, remedy: REMEDY }).slice(-1)",
      ],
    ],
    caughtBy: 'roots: trustBundle() is old',
    says: /with a new root: .*: it lacks the old root \(sha256 [0-9a-f]{64}\)\n/,
  },
  {
    that: 'leaves its connections for the server to close',
    changes: [['    await this.#http[Symbol.asyncDispose]()\n', '']],
    caughtBy: 'handles: no socket',
    says: /still open after the client was closed \(its server still runs\)/,
  },
]

const grpc: readonly Omit<Mutation, 'of'>[] = [
  {
    that: 'rounds the wish up to minutes',
    changes: [['Math.round(ttlSeconds)', 'Math.ceil(ttlSeconds / 60) * 60']],
    caughtBy: 'ttl: a wish reaches',
  },
  {
    that: 'waits ten minutes in place of its limit',
    changes: [['deadline: { ms: CALL_TIMEOUT_MS', 'deadline: { ms: 600_000']],
    caughtBy: 'errors: a CA that never answers',
  },
  {
    that: 'drops the second intermediate',
    changes: [
      [
        "return this.#responses.read(bytes, { action, remedy: 'Check that an Istio CA answers there' })",
        "const { chain, roots } = this.#responses.read(bytes, { action, remedy: '' })\n    return { chain: chain.slice(0, 2), roots }",
      ],
    ],
    caughtBy: 'contract: a certificate is for the identity',
  },
  {
    that: 'sends no token',
    changes: [['headers: token === undefined ? this.#headers', "headers: token !== '' ? this.#headers"]],
    caughtBy: 'token: each call',
  },
  {
    that: 'looks at no token file',
    changes: [['const own = tokenFile === undefined ? {} : { tokenFile }', 'const own = {}']],
    caughtBy: 'token: the token of a request with a tokenFile',
  },
  {
    that: 'does not close',
    changes: [['    this.#closing.close()\n', '']],
    caughtBy: 'close: close does not wait',
  },
  {
    that: 'throws the errors of its library',
    changes: [['      if (!isStatus(error)) throw error\n', '      if (error !== undefined) throw error\n']],
    caughtBy: 'errors: "denied"',
  },
  {
    that: 'makes one call after the other',
    changes: [
      [
        '  readonly #closing: Closable\n',
        '  readonly #closing: Closable\n  #last: Promise<unknown> = Promise.resolve()\n',
      ],
      [
        'untilAborted(this.#ask(request, action, ending), ending.signal)',
        '(this.#last = Promise.allSettled([this.#last]).then(() => this.#ask(request, action, ending)))',
      ],
    ],
    caughtBy: 'parallel: requests made at once are all at the CA',
  },
  {
    that: 'waits for the CSR whatever happens',
    changes: [
      ['untilAborted(this.#ask(request, action, ending), ending.signal)', 'this.#ask(request, action, ending)'],
    ],
    caughtBy: 'cancellation: an abort while the CSR',
  },
]

const program: readonly Omit<Mutation, 'of'>[] = [
  {
    that: 'leaves the program running',
    changes: [['const settings = { signal,', 'const settings = {']],
    caughtBy: 'cancellation: an abort in flight leaves no program',
  },
  {
    that: 'reads whatever the program prints',
    changes: [['maxBuffer: MAX_ANSWER_BYTES', 'maxBuffer: 2_000_000_000']],
    caughtBy: 'answers: endless',
  },
  {
    that: 'waits ten minutes in place of its limit',
    changes: [['ms: this.#config.timeout', 'ms: 600_000']],
    caughtBy: 'errors: a CA that never answers',
  },
  { that: 'takes a denial for an outage', changes: [["  3: 'denied',\n", '']], caughtBy: 'errors: "denied"' },
  {
    that: 'quotes the program, which quotes the token',
    changes: [['reason, remedy:', 'reason: stderr, remedy:']],
    caughtBy: 'token: no error and no log line',
    says: /holds the token in its message\n.*the refusal "unauthenticated"\.$/,
  },
  {
    that: 'keeps its token',
    changes: [
      ['  readonly #closable =', '  #kept: string | undefined\n  readonly #closable ='],
      ['token: credential?.token', 'token: (this.#kept ??= credential?.token)'],
    ],
    caughtBy: 'token: each call',
  },
  {
    that: 'drops the second intermediate',
    changes: [["remedy: 'Check the program' }).chain", "remedy: 'Check the program' }).chain.slice(0, 2)"]],
    caughtBy: 'contract: a certificate is for the identity',
  },
  {
    that: 'cuts the wish to minutes',
    changes: [['csr: pem, ttlSeconds,', 'csr: pem, ttlSeconds: ttlSeconds - (ttlSeconds % 60),']],
    caughtBy: 'ttl: a wish reaches',
  },
  {
    that: 'takes the end of its program for an answer',
    changes: [["?? 'unavailable')", "?? 'bad-response')"]],
    caughtBy: 'errors: a broken connection',
  },
  {
    that: 'does not end its calls at close',
    changes: [['    this.#closable.close()\n', '']],
    caughtBy: 'close: every method rejects',
  },
]

export const MUTATIONS: readonly Mutation[] = [
  ...https.map(each => ({ of: 'https' as const, ...each })),
  ...grpc.map(each => ({ of: 'grpc' as const, ...each })),
  ...program.map(each => ({ of: 'program' as const, ...each })),
]
