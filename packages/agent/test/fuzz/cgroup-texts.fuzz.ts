/** Texts of /proc/PID/cgroup: a pod or a problem, never anything else; nothing below a pod's group changes which pod it is. */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { findPod, findRoots } from '../../src/kubernetes/pod-cgroup.ts'

const UID = '0f188573-8e4f-11ea-a9a0-42010a800047'
const OTHER = 'daa5c7ee-3484-4533-af39-3591564fd03e'
const name = fc.oneof(
  fc.constantFrom(
    '..',
    '',
    'kubepods',
    'burstable',
    'kubepods.slice',
    'kubepods-burstable.slice',
    'user.slice',
    `pod${OTHER}`,
    `kubepods-burstable-pod${OTHER.replaceAll('-', '_')}.slice`,
    `kubepods-pod${OTHER.replaceAll('-', '_')}.slice:cri-containerd:${'a'.repeat(64)}`,
    `cri-containerd-${'0'.repeat(64)}.scope`,
    'a:b (deleted)',
  ),
  // A name of a group has no slash and no line feed.
  fc.string({ maxLength: 30, unit: 'binary' }).map(text => text.replaceAll(/[/\n]/g, '')),
)
const below = fc.array(name, { maxLength: 8 }).map(names => names.map(each => `/${each}`).join(''))
const above = fc.constantFrom('/kubepods', '/kubepods/burstable', '/../..', '/../../../besteffort')
const line = fc.oneof(
  below.map(path => `${path}\n`),
  fc
    .tuple(fc.nat(20), fc.string({ maxLength: 10 }), below)
    .map(([id, controllers, path]) => `${id}:${controllers}:${path}\n`),
)

export const inputs = fc.oneof(
  fc.record({
    text: fc.oneof(
      fc.string({ maxLength: 300, unit: 'binary' }),
      fc.array(line, { maxLength: 5 }).map(lines => lines.join('')),
    ),
  }),
  fc.record({ above, below }),
)

export function run(input: { readonly text: string } | { readonly above: string; readonly below: string }): void {
  if ('above' in input) {
    const found = findPod(`0::${input.above}/pod${UID}${input.below}\n`, [''])
    assert.equal('uid' in found ? found.uid : found.problem, UID)
    return
  }
  for (const roots of [[''], findRoots(input.text)]) {
    const found = findPod(input.text, roots)
    if ('problem' in found) assert.ok(found.problem.length < 10_000)
    else assert.ok(input.text.includes(found.uid) || input.text.includes(found.uid.replaceAll('-', '_')))
  }
}
