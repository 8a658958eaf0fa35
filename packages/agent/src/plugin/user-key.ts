/** `user`: the user whose rights the process of a plugin from a module has. */
import { readFileSync } from 'node:fs'
import type { PluginOptions } from '@livery/core/plugin'
import { check } from '../schema/check.ts'
import type { Problem } from '../schema/config-error.ts'
import { isMap, type Location, plainMap, type Tree } from '../schema/config-tree.ts'
import { Fault } from '../schema/fault.ts'
import { account } from '../schema/values.ts'
import type { PluginUser } from './messages.ts'

/** The key beside the name of a module. */
export const USER_KEY = {
  user: {
    type: 'string',
    description: "the user, by name or number, whose rights the plugin's process has; by default the agent's",
  },
} as const satisfies PluginOptions

/** Replaces the schema of `user` above, since a number is also allowed. */
export const USER_SCHEMA = { user: account('/etc/passwd') }

/** Faults for removed keys beside a module. */
export function removedKey(name: string): Fault | undefined {
  if (name !== 'isolation') return undefined
  const remedy = 'Remove it: a plugin from a module always runs in a process. With "user", root gives it another user'
  return new Fault('unknown key', remedy)
}

type Owner = { readonly user?: PluginUser } | { readonly problems: readonly Problem[] }

/** The user that the section at `at` names, if any, or its problems. */
export function readUser(at: Location, agent = { uid: process.geteuid?.(), gid: process.getegid?.() }): Owner {
  const { user } = isMap(at.node) ? plainMap(at.node) : {}
  if (user === undefined) return {}
  const userAt = at.child('user')
  if (agent.uid !== 0) {
    const remedy = 'Run the agent as root, or remove the key: then the process has the user of the agent'
    return refused(userAt, new Fault('only root can give a plugin a process of another user', remedy))
  }
  return userOf(user, userAt, agent.gid)
}

function userOf(user: Tree, at: Location, agentGid: number | undefined): Owner {
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

/** The group in `/etc/passwd`; for an unknown number, the same number. */
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
