/** An agent with a good identity, and another one that its CA refuses at times. */
import assert from 'node:assert/strict'
import { unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort, TemporaryFolder } from '@livery/test-support'
import { LiveryProcess } from '../../agent/test/livery-process.ts'
import { writePluginModule } from '../../agent/test/plugin-module.ts'

export const GOOD = 'spiffe://cluster.local/ns/default/sa/good'
export const BAD = 'spiffe://cluster.local/ns/default/sa/bad'
/** As a hostile CA writes it. */
export const TEXT = 'Not registered: <img src=x onerror="document.title=1"><b>remedy</b>'
export const TOKEN = 'a-token-of-the-operator'

/** An agent whose CA refuses `BAD` while there is a file `refused`. */
export class RefusingNode implements AsyncDisposable {
  readonly folder: string
  readonly admin: string
  agent: LiveryProcess
  readonly #parts: AsyncDisposableStack

  private constructor(folder: string, admin: string, parts: AsyncDisposableStack) {
    this.folder = folder
    this.admin = admin
    this.agent = new LiveryProcess(['run'], { cwd: folder })
    this.#parts = parts
  }

  static async start(): Promise<RefusingNode> {
    const parts = new AsyncDisposableStack()
    const { path: folder } = parts.use(new TemporaryFolder())
    const onIssue = `if (request.identity.endsWith('bad') && existsSync(folder + '/refused')) throw new CAError('denied', ${JSON.stringify(TEXT)})`
    await writePluginModule(folder, { onIssue })
    await writeFile(join(folder, 'admin.token'), TOKEN, { mode: 0o600 })
    const admin = `127.0.0.1:${await freePort()}`
    const config = {
      ca: { plugin: './acme.mjs' },
      // The CA back-dates by two minutes: what is measured from notBefore shows.
      ttl: '4m',
      identities: [GOOD, { id: BAD, socket: 'bad.sock' }],
      sockets: [{ path: 'sds.sock', allow: [GOOD] }],
      admin: { address: admin, tokenFile: 'admin.token' },
      drain: '100ms',
    }
    await writeFile(join(folder, 'livery.yaml'), JSON.stringify(config))
    const node = new RefusingNode(folder, admin, parts)
    await node.issued()
    return node
  }

  /** Resolves when both have a certificate. */
  async issued(): Promise<void> {
    await Promise.all([GOOD, BAD].map(name => this.agent.line(new RegExp(`"event":"issued","resource":"${name}"`))))
  }

  async refuse(): Promise<void> {
    await writeFile(join(this.folder, 'refused'), '')
    await this.renew()
  }

  async renew(): Promise<void> {
    const url = `http://${this.admin}/renew?name=${encodeURIComponent(BAD)}`
    const { status } = await fetch(url, { method: 'PUT', headers: { authorization: `Bearer ${TOKEN}` } })
    assert.equal(status, 202)
  }

  async accept(): Promise<void> {
    await unlink(join(this.folder, 'refused'))
    await this.renew()
  }

  async restart(): Promise<void> {
    await this.agent[Symbol.asyncDispose]()
    this.agent = new LiveryProcess(['run'], { cwd: this.folder })
    await this.issued()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.agent[Symbol.asyncDispose]()
    await this.#parts.disposeAsync()
  }
}
