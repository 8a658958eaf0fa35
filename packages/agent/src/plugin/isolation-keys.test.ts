/** Under whose rights a plugin from a module runs, as the configuration says it, and what is refused. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ISOLATION_KINDS } from '../../test/isolation-kinds.ts'
import { makeDirectory } from '../../test/livery-process.ts'
import { writePluginModule } from '../../test/plugin-module.ts'
import { loadSectionShape } from '../config/ca-section.ts'
import { UNWRITTEN } from '../schema/config-error.ts'
import { Location, nodeOf, type TreeObject } from '../schema/config-tree.ts'
import { faultText } from '../schema/fault.ts'
import { readIsolation } from './isolation-keys.ts'

const ROOT = { uid: 0, gid: 0 }

function refusal(section: TreeObject, agent = ROOT): string {
  const read = readIsolation(locate(section), agent)
  return 'problems' in read ? read.problems.map(({ path, ...fault }) => `${path}: ${faultText(fault)}`).join() : 'none'
}

function locate(ca: TreeObject): Location {
  return new Location(nodeOf({ ca }, UNWRITTEN), ['ca'])
}

test('a plugin has a thread, unless it is given a process of a user', () => {
  assert.deepEqual(readIsolation(locate({}), ROOT), {})
  assert.deepEqual(readIsolation(locate({ isolation: 'thread' }), { uid: 7, gid: 7 }), {})
  const user = { uid: 4_000_000, gid: 4_000_000 }
  assert.deepEqual(readIsolation(locate({ isolation: 'process', user: user.uid }), ROOT), { user })
})

test('a process without another user is refused, and so is a user that does nothing', () => {
  assert.match(refusal({ isolation: 'jail' }), /^ca\.isolation: .*thread/)
  assert.match(refusal({ isolation: 'process' }), /^ca\.user: is missing\. Write the name or number/)
  assert.match(refusal({ isolation: 'process', user: 0 }), /^ca\.user: 0 is root/)
  assert.match(refusal({ isolation: 'process', user: 'root' }), /^ca\.user: "root" is root/)
  assert.match(refusal({ isolation: 'process', user: 'nobody-here' }), /^ca\.user: is not in \/etc\/passwd/)
  assert.match(refusal({ isolation: 'process', user: 2 ** 32 - 1 }), /^ca\.user: 4294967295 is more than/)
  assert.match(refusal({ isolation: 'process', user: 4_000_000 }, { uid: 0, gid: 4_000_000 }), /in the group 4000000/)
  assert.match(refusal({ user: 4_000_000 }), /^ca\.user: a thread has the rights of the agent\./)
})

test('an agent that is not root refuses a process, which would have its own user', () => {
  const refused = /^ca\.isolation: only root can give a plugin a process of another user.*Run the agent as root/
  assert.match(refusal({ isolation: 'process' }, { uid: 1_000, gid: 1_000 }), refused)
  assert.match(refusal({ isolation: 'process', user: 4_000_000 }, { uid: 1_000, gid: 1_000 }), refused)
})

test('a section with both keys is read for modules, for members of failover and for sources of credentials', async () => {
  await using directory = await makeDirectory()
  const { parent } = await writePluginModule(directory.path)
  const [{ skip }] = ISOLATION_KINDS.slice(1) as [(typeof ISOLATION_KINDS)[1]]
  const bad = { plugin: './acme.mjs', isolation: 'process', user: 'nobody-here' }
  const path = skip ? 'isolation' : 'user'
  const placeOf = () => ({ file: parent })
  const sections: Record<string, TreeObject> = {
    [`ca.${path}`]: bad,
    [`ca.cas[0].${path}`]: { plugin: 'failover', cas: [bad] },
    [`ca.credentials.${path}`]: {
      plugin: 'citadel',
      credentials: { source: './source.mjs', isolation: 'process', user: 'nobody-here' },
    },
  }
  for (const [at, section] of Object.entries(sections)) {
    const shape = await loadSectionShape(locate(section), placeOf)
    assert.deepEqual('problems' in shape && shape.problems.map(({ path }) => path), [at])
  }
})
