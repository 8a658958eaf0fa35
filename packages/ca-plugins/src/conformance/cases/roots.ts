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

async function expectBundle(on: Bench, when: string): Promise<void> {
  const listed = await trustBundleOf(on)
  const expected = fingerprints(on.ca.trustBundle())
  assert.deepEqual(fingerprints(listed), expected, `${when}: trustBundle() is not the complete list of the CA's roots`)
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
      await expectBundle(on, 'before the rotation')
      await on.ca.addRoot()
      await expectBundle(on, 'with a new root')
      await on.ca.switchRoot()
      await expectBundle(on, 'with certificates under the new root')
      await on.ca.dropOldRoots()
      await expectBundle(on, 'without the old root')
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
