/** The user whose rights a plugin from a module has, as the configuration names it, and what is refused. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import { writePluginModule } from '../../test/plugin-module.ts'
import { loadSectionShape } from '../config/ca-section.ts'
import { UNWRITTEN } from '../schema/config-error.ts'
import { Location, nodeOf, type TreeObject } from '../schema/config-tree.ts'
import { faultText } from '../schema/fault.ts'
import { readUser } from './user-key.ts'

const ROOT = { uid: 0, gid: 0 }

function refusal(section: TreeObject, agent = ROOT): string {
  const read = readUser(locate(section), agent)
  return 'problems' in read ? read.problems.map(({ path, ...fault }) => `${path}: ${faultText(fault)}`).join() : 'none'
}

function locate(ca: TreeObject): Location {
  return new Location(nodeOf({ ca }, UNWRITTEN), ['ca'])
}

test("a plugin's process has the user of the agent, unless root gives it another", () => {
  assert.deepEqual(readUser(locate({}), ROOT), {})
  assert.deepEqual(readUser(locate({}), { uid: 7, gid: 7 }), {})
  const user = { uid: 4_000_000, gid: 4_000_000 }
  assert.deepEqual(readUser(locate({ user: user.uid }), ROOT), { user })
})

test('a user with the rights of the agent is refused, and so is one that is not there', () => {
  assert.match(refusal({ user: 0 }), /^ca\.user: 0 is root/)
  assert.match(refusal({ user: 'root' }), /^ca\.user: "root" is root/)
  assert.match(refusal({ user: 'nobody-here' }), /^ca\.user: is not in \/etc\/passwd/)
  assert.match(refusal({ user: 2 ** 32 - 1 }), /^ca\.user: 4294967295 is more than/)
  assert.match(refusal({ user: 4_000_000 }, { uid: 0, gid: 4_000_000 }), /in the group 4000000/)
})

test('an agent that is not root refuses a user for its plugin', () => {
  const refused = /^ca\.user: only root can give a plugin a process of another user\. Run the agent as root, or remove/
  assert.match(refusal({ user: 4_000_000 }, { uid: 1_000, gid: 1_000 }), refused)
})

test('the user of a section is read for modules, for members of failover and for sources of credentials', async t => {
  const { parent } = await writePluginModule(temporaryFolder(t))
  const bad = { plugin: './acme.mjs', user: 'nobody-here' }
  const placeOf = () => ({ file: parent })
  const sections: Record<string, TreeObject> = {
    'ca.user': bad,
    'ca.cas[0].user': { plugin: 'failover', cas: [bad] },
    'ca.credentials.user': { plugin: 'citadel', credentials: { source: './source.mjs', user: 'nobody-here' } },
  }
  for (const [at, section] of Object.entries(sections)) {
    const shape = await loadSectionShape(locate(section), placeOf)
    assert.deepEqual('problems' in shape && shape.problems.map(({ path }) => path), [at])
  }
})
