/** The pods of this node as a source of identities: each pod that has one has a socket in a folder of its own. */
import { join } from 'node:path'
import { Events, type SpiffeId } from '@livery/core'
import type { HeldIdentities, IdentitySocket, IdentitySource } from '../identity-source/identity-source.ts'
import type { NodePods } from './node-pods.ts'
import { FOLDER_MODE } from './pod-folders.ts'

export interface PodSocketSettings {
  /** The folder of the folders of pods. */
  readonly root: string
  /** The name of each pod's socket. */
  readonly name: string
  readonly mode: number
}

export class PodIdentities implements IdentitySource, Disposable {
  readonly changes = new Events<void>()
  readonly #pods: Pick<NodePods, 'all' | 'isListed'>
  readonly #settings: PodSocketSettings
  readonly #subscription: Disposable

  constructor(pods: Pick<NodePods, 'all' | 'isListed' | 'changes'>, settings: PodSocketSettings) {
    this.#pods = pods
    this.#settings = settings
    this.#subscription = pods.changes.subscribe(() => this.changes.emit())
  }

  identities(): HeldIdentities | undefined {
    // Until then a pod that is not there may only not have been listed.
    if (!this.#pods.isListed) return undefined
    const { root, name, mode } = this.#settings
    const identities = new Map<SpiffeId, { readonly sockets: IdentitySocket[] }>()
    for (const { uid, identity } of this.#pods.all()) {
      if (identity === undefined) continue
      const socket = { path: join(root, uid, name), mode, folderMode: FOLDER_MODE }
      const held = identities.get(identity)
      if (held) held.sockets.push(socket)
      else identities.set(identity, { sockets: [socket] })
    }
    return identities
  }

  [Symbol.dispose](): void {
    this.#subscription[Symbol.dispose]()
  }
}
