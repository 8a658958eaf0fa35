/** `isolation` and `user`: whether a plugin from a module runs in a thread of the agent or in a process of another user. */
import { readFileSync } from 'node:fs'
import type { PluginOptions } from '@livery/core'
import * as v from 'valibot'
import { check } from '../schema/check.ts'
import type { Problem } from '../schema/config-error.ts'
import { isMap, type Location, plainMap, type Tree } from '../schema/config-tree.ts'
import { Fault } from '../schema/fault.ts'
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

type Isolation = { readonly user?: PluginUser } | { readonly problems: readonly Problem[] }

/** The isolation that the section at `at` asks for, or its problems; without `isolation` the plugin has a thread. */
export function readIsolation(at: Location, agent = { uid: process.geteuid?.(), gid: process.getegid?.() }): Isolation {
  const { isolation, user } = isMap(at.node) ? plainMap(at.node) : {}
  const [isolationAt, userAt] = [at.child('isolation'), at.child('user')]
  const kind = check(v.optional(oneOf(ISOLATIONS), 'thread'), isolation)
  if ('refusals' in kind) return refused(isolationAt, ...kind.refusals.map(({ fault }) => fault))
  if (kind.output === 'thread') {
    if (user === undefined) return {}
    const remedy = 'Write isolation: process, or remove the key "user"'
    return refused(userAt, new Fault('a thread has the rights of the agent', remedy))
  }
  if (agent.uid !== 0) {
    const reason =
      'only root can give a plugin a process of another user, and under its own user it could reach the sockets of the agent'
    return refused(isolationAt, new Fault(reason, 'Run the agent as root with user set, or remove the key'))
  }
  const remedy = 'Write the name or number of a user that has nothing else on this machine'
  return user === undefined ? refused(userAt, new Fault('is missing', remedy)) : userOf(user, userAt, agent.gid)
}

function userOf(user: Tree, at: Location, agentGid: number | undefined): Isolation {
  const uid = check(USER_SCHEMA.user, user)
  if ('refusals' in uid) return refused(at, ...uid.refusals.map(({ fault }) => fault))
  const gid = primaryGroup(uid.output)
  const refuse = (reason: string) =>
    refused(at, new Fault(reason, 'Choose another user, which has nothing else on this machine'))
  if (uid.output === 0) return refuse(`${JSON.stringify(user)} is root, the user of the agent`)
  if (uid.output > MAX_ID) return refuse(`${uid.output} is more than ${MAX_ID}`)
  if (gid === 0 || gid === agentGid) return refuse(`${JSON.stringify(user)} is in the group ${gid} of the agent`)
  return { user: { uid: uid.output, gid } }
}

/** The kernel reads 4294967295 as "leave it as it is". */
const MAX_ID = 4_294_967_294

/** The group in `/etc/passwd`; for a number that is not there, the same number. */
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

function refused(at: Location, ...faults: readonly Fault[]): { readonly problems: readonly Problem[] } {
  return { problems: faults.map(fault => at.problem(fault)) }
}
