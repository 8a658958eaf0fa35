/** `isolation` and `user`: whether a plugin from a module runs in a thread of the agent or in a process of another user. */
import { readFileSync } from 'node:fs'
import type { PluginOptions } from '@livery/core'
import * as v from 'valibot'
import type { Finding } from '../schema/config-error.ts'
import { childPath, type Tree, type TreeObject } from '../schema/document.ts'
import { account, oneOf } from '../schema/values.ts'
import type { PluginUser } from './messages.ts'

const ISOLATIONS = ['thread', 'process'] as const

/** The keys beside the name of a module. */
export const ISOLATION_KEYS = {
  isolation: { type: 'string', choices: ISOLATIONS, description: 'thread (the default), or process: under user' },
  user: { type: 'string', description: 'the user, by name or number, whose rights the process of the plugin has' },
} as const satisfies PluginOptions

/** In place of the schema of `user` above, for a number is also allowed. */
export const USER_SCHEMA = { user: account('/etc/passwd') }

type Isolation = { readonly user?: PluginUser } | { readonly findings: readonly Finding[] }

/** What the section at `at` says, or what is wrong with it; without `isolation` the plugin has a thread. */
export function readIsolation(
  section: TreeObject,
  at: string,
  agent = { uid: process.geteuid?.(), gid: process.getegid?.() },
): Isolation {
  const { isolation, user } = section
  const kind = v.safeParse(v.optional(oneOf(ISOLATIONS), 'thread'), isolation)
  if (!kind.success) return refused(childPath(at, 'isolation'), kind.issues[0].message)
  const userPath = childPath(at, 'user')
  if (kind.output === 'thread')
    return user === undefined
      ? {}
      : refused(userPath, 'a thread has the rights of the agent. Write isolation: process, or remove the key "user".')
  if (agent.uid !== 0)
    return refused(
      childPath(at, 'isolation'),
      'only root can give a plugin a process of another user, and under its own user it could reach the sockets of the agent. Run the agent as root with user set, or remove the key.',
    )
  if (user === undefined)
    return refused(userPath, 'is missing. Write the name or number of a user that has nothing else on this machine.')
  return userOf(user, userPath, agent.gid)
}

function userOf(user: Tree, path: string, agentGid: number | undefined): Isolation {
  const uid = v.safeParse(USER_SCHEMA.user, user)
  if (!uid.success) return refused(path, uid.issues[0].message)
  const gid = primaryGroup(uid.output)
  const remedy = 'Choose another user, which has nothing else on this machine.'
  if (uid.output === 0) return refused(path, `${JSON.stringify(user)} is root, the user of the agent. ${remedy}`)
  if (uid.output > MAX_ID) return refused(path, `${uid.output} is more than ${MAX_ID}. ${remedy}`)
  if (gid === 0 || gid === agentGid)
    return refused(path, `${JSON.stringify(user)} is in the group ${gid} of the agent. ${remedy}`)
  return { user: { uid: uid.output, gid } }
}

/** The kernel reads 4294967295 as "leave it as it is". */
const MAX_ID = 4_294_967_294

/** That of `/etc/passwd`; of a number that is not there, the same number. */
function primaryGroup(uid: number): number {
  const row = accounts().find(([, , id]) => Number(id) === uid)
  return Number(row?.[3] ?? uid)
}

function accounts(): string[][] {
  try {
    return readFileSync('/etc/passwd', 'utf8')
      .split('\n')
      .map(line => line.split(':'))
      .filter(({ length }) => length > 3)
  } catch {
    return []
  }
}

function refused(path: string, text: string): { readonly findings: readonly Finding[] } {
  return { findings: [{ path, text }] }
}
