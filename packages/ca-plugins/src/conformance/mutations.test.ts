/** Changes of three plugins that break a duty: the case of that duty finds each, and lets the plugin itself through. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CAError } from '@livery/core/plugin'
import { MUTATIONS } from '../../test/mutants/mutations.ts'
import { type Change, mutantOf, SUBJECTS } from '../../test/mutants/subjects.ts'
import { suite } from './suite.ts'

const PATIENCE_MS = 20_000
/** A call that hangs is found so late. */
const SHORT_PATIENCE_MS = 3_000
const isSlow = process.env['LIVERY_SLOW'] === '1'

/** The case whose name begins so, for the plugin with these changes. */
function caseOf(
  of: keyof typeof SUBJECTS,
  changes: readonly Change[],
  caughtBy: string,
  patienceMs: number,
): () => Promise<void> {
  const { source, suiteOf } = SUBJECTS[of]
  const found: (() => Promise<void>)[] = []
  suite({
    ...suiteOf(mutantOf(source, changes)),
    slow: isSlow,
    patienceMs,
    test: (name, run) => void (name.startsWith(caughtBy) && !name.includes('(skipped: ') && found.push(run)),
  })
  const [run, ...others] = found
  assert.ok(run && others.length === 0, `${found.length} cases begin with ${caughtBy}`)
  return run
}

const mutations = MUTATIONS.filter(({ slow = false }) => isSlow || !slow)

/** Not an error of the mutation itself. */
function isVerdict(error: unknown, says: RegExp | undefined): boolean {
  const isOne = error instanceof assert.AssertionError || error instanceof CAError
  return isOne && (says?.test(error.message) ?? true)
}

for (const { of, that, changes, caughtBy, says } of mutations)
  test(`a plugin (${of}) that ${that} fails "${caughtBy}"`, { timeout: PATIENCE_MS * (isSlow ? 20 : 3) }, async () => {
    await assert.rejects(caseOf(of, changes, caughtBy, SHORT_PATIENCE_MS), error => isVerdict(error, says))
  })

for (const plugin of ['https', 'grpc', 'program'] as const)
  test(`the plugin (${plugin}) without a change passes those cases`, async () => {
    const names = new Set(mutations.filter(each => each.of === plugin).map(({ caughtBy }) => caughtBy))
    for (const name of names) await caseOf(plugin, [], name, PATIENCE_MS)()
  })
