/** Roots, and their rotation: old, old and new, new. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { type CACapabilities, pemToDer } from '@livery/core/plugin'
import type { Bench, BenchCase, LiveCase, Subject } from '../kit/conformance-case.ts'
import { expectPath, expectPem, issue, trustBundleOf } from '../kit/expectations.ts'
import { inTime } from '../kit/in-time.ts'

const group = 'roots'

function unlessListed({ roots }: CACapabilities): string | undefined {
  return roots === 'none' ? 'the CA does not list its roots' : undefined
}

function fingerprints(pems: readonly string[]): readonly string[] {
  return pems.map(pem => createHash('sha256').update(pemToDer(pem)).digest('hex')).sort()
}

/** `old` is the fingerprint of the root that the rotation gives up. */
async function expectBundle(on: Bench, when: string, old: string | undefined): Promise<void> {
  const listed = await trustBundleOf(on)
  const found = fingerprints(listed)
  const expected = fingerprints(on.ca.trustBundle())
  const named = (root: string) => `the ${root === old ? 'old' : 'new'} root (sha256 ${root})`
  const faults = [
    ...expected.filter(root => !found.includes(root)).map(root => `it lacks ${named(root)}`),
    ...found.filter(root => !expected.includes(root)).map(root => `the CA does not have ${named(root)}`),
  ]
  const reason = `${when}: trustBundle() is not the complete list of the CA's roots`
  assert.ok(faults.length === 0, `${reason}: ${faults.join(', ')}`)
  expectPath(on, await issue(on), listed)
}

async function bundle(on: Subject): Promise<readonly string[]> {
  const roots = await trustBundleOf(on)
  assert.ok(roots.length > 0, 'trustBundle() is empty')
  return roots
}

export const rootCases: readonly LiveCase[] = [
  {
    group,
    name: 'trustBundle() lists roots as PEM, one certificate an element, each once',
    skip: unlessListed,
    async run(on) {
      const roots = await bundle(on)
      for (const [index, element] of roots.entries()) expectPem(element, `trustBundle()[${index}]`)
      assert.equal(new Set(fingerprints(roots)).size, roots.length, 'trustBundle() lists a root twice')
    },
  },
]

export const rotationCases: readonly BenchCase[] = [
  {
    group,
    name: 'trustBundle() is old, then old and new, then new, and each certificate verifies on the way',
    needs: ['root-rotation'],
    skip: unlessListed,
    async run(on) {
      const [old] = fingerprints(on.ca.trustBundle())
      await expectBundle(on, 'before the rotation', old)
      await on.ca.addRoot()
      await expectBundle(on, 'with a new root', old)
      await on.ca.switchRoot()
      await expectBundle(on, 'with certificates under the new root', old)
      await on.ca.dropOldRoots()
      await expectBundle(on, 'without the old root', old)
    },
  },
  {
    group,
    name: 'roots that come with a certificate include the one it is under, through a rotation',
    needs: ['root-rotation'],
    async run(on) {
      const check = async () => {
        const issued = await issue(on)
        if (issued.roots) expectPath(on, issued, issued.roots)
      }
      await check()
      await on.ca.addRoot()
      await on.ca.switchRoot()
      await check()
      await on.ca.dropOldRoots()
      await check()
    },
  },
  {
    group,
    name: 'a subscriber hears of new roots and of those given up, until it is disposed',
    needs: ['root-rotation'],
    skip: ({ roots }) => (roots === 'push' ? undefined : 'the client has no subscribe'),
    async run(on) {
      let heard = Promise.withResolvers<void>()
      let count = 0
      const subscription = on.client.subscribe?.(({ kind }) => {
        if (kind !== 'roots') return
        count++
        heard.resolve()
      })
      await on.ca.addRoot()
      await inTime(heard.promise, on.patienceMs, 'word of the new root')
      await on.ca.switchRoot()
      heard = Promise.withResolvers()
      await on.ca.dropOldRoots()
      await inTime(heard.promise, on.patienceMs, 'word of the root given up')
      subscription?.[Symbol.dispose]()
      const before = count
      await on.ca.addRoot()
      // A notification that is still on its way arrives before this answer.
      await issue(on)
      assert.equal(count, before, 'the listener was called after its subscription was disposed')
    },
  },
]
