/** A node whose agent serves all pods on one socket: it runs in a pod of its own, in real control groups, and an API server lists the others. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { TemporaryFolder } from '@livery/test-support'
import { ControlGroups, groupPath, noControlGroups } from './control-groups.ts'
import { inGroup, noMounts, withAccount } from './launchers.ts'
import { LiveryProcess } from './livery-process.ts'
import { NODE, PodApiServer } from './pod-api-server.ts'

/** Why such a node cannot run here, or `false`. */
export const noSharedNode: string | false = noControlGroups || noMounts

interface SharedNode extends AsyncDisposable {
  /** The folder of its configuration, which everybody may read. */
  readonly cwd: string
  readonly api: PodApiServer
  /** The one that runs now. */
  readonly agent: LiveryProcess
  /** The one for all pods. */
  readonly socket: string
  /** The control group of the container of a pod, made on demand. */
  groupOf(uid: string): string
  restart(): Promise<void>
}

/** Starts the program in a pod of a node whose pods `api` lists. Dispose the processes of pods first. */
export async function startNode(kubernetes: object = {}, allow?: readonly string[]): Promise<SharedNode> {
  await using parts = new AsyncDisposableStack()
  const { path: cwd } = parts.use(new TemporaryFolder())
  await chmod(cwd, 0o755)
  const groups = parts.use(new ControlGroups())
  const api = parts.use(await PodApiServer.start())
  await api.mountAccount(cwd)
  const groupOf = (uid: string) => groups.make(groupPath(uid))
  const config = {
    ca: { plugin: 'embedded' },
    kubernetes: { nodeName: NODE, ...kubernetes },
    sockets: [{ path: 'pods/socket', mode: '0666', identify: 'kubernetes', allow }],
    admin: { address: '127.0.0.1:0' },
  }
  await writeFile(join(cwd, 'livery.yaml'), JSON.stringify(config))
  const agents = parts.use(new AsyncDisposableStack())
  const start = async () => {
    const launcher = [...inGroup(groupOf(randomUUID())), ...withAccount(cwd)]
    const process = agents.use(new LiveryProcess(['run'], { cwd, env: api.environment, launcher }))
    assert.match(await process.line(/socket .*pods\/socket/), /to each pod its identity.* \(callers: pods\)/)
    return process
  }
  let agent = await start()
  const all = parts.move()
  return {
    cwd,
    api,
    get agent() {
      return agent
    },
    socket: join(cwd, 'pods/socket'),
    groupOf,
    async restart() {
      agent.kill('SIGTERM')
      await agent.ended
      agent = await start()
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}
