/** A reader of `/page/events` that keeps what it is sent, as the page does. */
import { once } from 'node:events'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import type { PageChange, PageHello, PageIdentity, PageSections } from '../src/page/state.ts'
import type { ListenAddress } from '../src/schema/values.ts'

export class PageEvents implements Disposable {
  readonly response: IncomingMessage
  readonly rows = new Map<string, PageIdentity>()
  readonly sections: Partial<PageSections> = {}
  readonly ids: number[] = []
  hello: PageHello | undefined
  /** How many rows more the last event announced. */
  more: number | undefined
  changes = 0
  comments = 0
  hasEnded = false
  /** Everything that came, as it came. */
  text = ''
  readonly #call: ClientRequest
  #rest = ''
  #next = Promise.withResolvers<void>()

  private constructor(call: ClientRequest, response: IncomingMessage) {
    this.#call = call
    this.response = response
    response.setEncoding('utf8').on('data', (text: string) => this.#read(text))
    response
      .on('error', () => {})
      .on('close', () => {
        this.hasEnded = true
        this.#wake()
      })
  }

  /** Resolves with the head of the answer. */
  static async open(address: ListenAddress, headers: Record<string, string> = {}): Promise<PageEvents> {
    const target = 'path' in address ? { socketPath: address.path } : { ...address }
    const call = request({ ...target, path: '/page/events', headers: { host: 'localhost', ...headers }, agent: false })
    call.on('error', () => {}).end()
    const [response] = await once(call, 'response')
    return new PageEvents(call, response)
  }

  /** Resolves when `isThere` says so of what came; rejects if the answer ends before. */
  async until(isThere: (events: this) => boolean): Promise<void> {
    while (!isThere(this)) {
      if (this.hasEnded) throw new Error(`the events ended after ${this.text.length} characters`)
      await this.#next.promise
    }
  }

  [Symbol.dispose](): void {
    this.#call.destroy()
  }

  #read(text: string): void {
    this.text += text
    const blocks = (this.#rest + text).split('\n\n')
    this.#rest = blocks.pop() ?? ''
    for (const block of blocks) this.#take(block)
    this.#wake()
  }

  #take(block: string): void {
    if (block.startsWith(':')) {
      this.comments++
      return
    }
    const fields = new Map(
      block.split('\n').map(line => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]),
    )
    this.ids.push(Number(fields.get('id')))
    const data = fields.get('data') ?? ''
    if (fields.get('event') === 'hello') this.hello = JSON.parse(data)
    else this.#apply(JSON.parse(data))
  }

  #apply({ identities = [], gone = [], more, now: _now, ...sections }: PageChange): void {
    this.changes++
    this.more = more
    for (const row of identities) this.rows.set(row.name, row)
    for (const name of gone) this.rows.delete(name)
    Object.assign(this.sections, sections)
  }

  #wake(): void {
    this.#next.resolve()
    this.#next = Promise.withResolvers()
  }
}
