/** The pods of a node that nothing runs in: waves of them are created, moved to another node and back, and deleted. */
import { Semaphore } from '@livery/core/plugin'
import type { NodePod, PodNode } from './pod-node.ts'

/** Calls to the API server. */
const AT_ONCE = 8

export class PodPopulation {
  readonly counts = { created: 0, moved: 0, deleted: 0 }
  readonly #node: PodNode
  readonly #accounts: readonly string[]
  /** On the node, those that came first at the beginning. */
  readonly #here: NodePod[] = []
  #away: readonly NodePod[] = []

  constructor(node: PodNode, accounts: readonly string[]) {
    this.#node = node
    this.#accounts = accounts
  }

  get here(): readonly NodePod[] {
    return this.#here
  }

  /** Creates pods, of each account in turn. */
  async create(count: number): Promise<readonly NodePod[]> {
    return await this.#add(Array.from({ length: count }, () => this.#newPod()))
  }

  /**
   * Deletes `count` pods and creates as many; moves as many to the other node, and back those that went before.
   * Resolves, when the agent has let go of those that left, with those that left for good and those that are new here.
   */
  async wave(count: number): Promise<{ readonly gone: readonly NodePod[]; readonly here: readonly NodePod[] }> {
    const gone = this.#here.splice(0, count)
    const leaving = this.#here.splice(0, count)
    const returning = this.#away
    const [created, returned] = await Promise.all([
      this.create(count),
      this.#return(returning),
      this.#delete(gone),
      this.#leave(leaving),
    ])
    this.#away = leaving
    await Promise.all([...gone, ...leaving].map(pod => this.#node.gone(pod)))
    return { gone, here: [...created, ...returned] }
  }

  /** Deletes all that are here. */
  async clear(): Promise<void> {
    await this.#delete(this.#here.splice(0))
  }

  #newPod(): { readonly name: string; readonly account: string } {
    const number = this.counts.created++
    const account = this.#accounts[number % this.#accounts.length]
    if (account === undefined) throw new Error('pods need an account')
    return { name: `pod-${number}`, account }
  }

  async #add(pods: readonly Pick<NodePod, 'name' | 'account'>[]): Promise<readonly NodePod[]> {
    const added = await few(pods, ({ name, account }) => this.#node.createPod(name, account))
    this.#here.push(...added)
    return added
  }

  async #delete(pods: readonly NodePod[]): Promise<void> {
    await few(pods, ({ name }) => this.#node.nodes.deletePod(name))
    this.counts.deleted += pods.length
  }

  async #leave(pods: readonly NodePod[]): Promise<void> {
    const { nodes } = this.#node
    await few(pods, async ({ name, account }) => {
      await nodes.deletePod(name)
      await nodes.createPod({ name, account, node: nodes.otherNode })
    })
  }

  async #return(pods: readonly NodePod[]): Promise<readonly NodePod[]> {
    await few(pods, ({ name }) => this.#node.nodes.deletePod(name))
    this.counts.moved += pods.length
    return await this.#add(pods)
  }
}

/** Runs `task` for a few of `items` at a time. */
async function few<Item, Result>(
  items: readonly Item[],
  task: (item: Item) => Promise<Result>,
): Promise<readonly Result[]> {
  const room = new Semaphore(AT_ONCE)
  return await Promise.all(items.map(item => room.run(() => task(item))))
}
