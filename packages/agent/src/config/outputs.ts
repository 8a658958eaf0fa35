/** Gives each identity its output directory, its own or the agent's; no two share one. */

import type { Problem } from '../schema/config-error.ts'
import type { Location } from '../schema/config-tree.ts'
import { Fault } from '../schema/fault.ts'
import { type ConfiguredIdentity, NAME, withName } from './identities.ts'
import type { OutputSetting } from './output-schema.ts'

/** `output`: the agent's key; `at` is the root. */
export function assignOutputs(
  identities: readonly ConfiguredIdentity[],
  output: OutputSetting | undefined,
  at: Location,
): { readonly identities: readonly ConfiguredIdentity[]; readonly problems: readonly Problem[] } {
  const assigned = identities.map(each => ({ ...each, output: each.output ?? forIdentity(output, each.id) }))
  const directories = new Map<string, string>()
  for (const { id, output: own } of assigned) {
    const other = own && directories.get(own.directory)
    if (own && other !== undefined) {
      const reason = `${own.directory} is the output directory of ${other} and of ${id}`
      const remedy = `Give each its own, or write ${NAME}, the last segment of its SPIFFE ID, in output.directory`
      return { identities, problems: [at.child(output ? 'output' : 'identities').problem(new Fault(reason, remedy))] }
    }
    if (own) directories.set(own.directory, id)
  }
  return { identities: assigned, problems: [] }
}

function forIdentity(output: OutputSetting | undefined, id: string): OutputSetting | undefined {
  return output && { ...output, directory: withName(output.directory, id) }
}
