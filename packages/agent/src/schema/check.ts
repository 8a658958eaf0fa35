/** Checks values against a schema, and reports each fault at the place where the value is written. */
import { hideUserinfo } from '@livery/core/plugin'
import * as v from 'valibot'
import type { Problem } from './config-error.ts'
import { type ConfigNode, isList, isMap, type Location, type Path, plain } from './config-tree.ts'
import { Fault } from './fault.ts'
import { messageFault, type Schema } from './schema-parts.ts'

/** A fault of the value at `path`, relative to the checked value. */
interface Refusal {
  readonly path: Path
  readonly fault: Fault
}

type Checked<T, R> = { readonly output: T } | { readonly refusals: readonly R[] }

/** The value that the schema reads from `input`, or its problems. */
export function check<T>(schema: Schema<T>, input: unknown): Checked<T, Refusal> {
  const result = v.safeParse(schema, input)
  if (result.success) return { output: result.output }
  const pathOf = (issue: v.BaseIssue<unknown>): Path => (issue.path ?? []).map(({ key }) => key as string | number)
  return { refusals: result.issues.map(issue => ({ path: pathOf(issue), fault: messageFault(issue.message) })) }
}

/** The same for the value at `at`: each problem has its origin, and the value as written, unless it is secret. */
export function checkNode<T>(schema: Schema<T>, at: Location): Checked<T, Problem> {
  const { node } = at
  const checked = check(schema, node && plain(node))
  if ('output' in checked) return checked
  return {
    refusals: checked.refusals.map(({ path, fault }) => {
      const place = at.child(...path)
      return place.problem(withValue(fault, place.node))
    }),
  }
}

function withValue({ reason, remedy }: Fault, node: ConfigNode | undefined): Fault {
  const value = /^(?:unknown key|is missing)/.test(reason) ? undefined : node && shownValue(node)
  return new Fault(value === undefined ? reason : `${value} ${reason}`, remedy)
}

/** `undefined` where the value explains nothing. */
function shownValue(node: ConfigNode): string | undefined {
  if (node.value === null || hasSecret(node)) return undefined
  if (node.origin.kind === 'environment') return JSON.stringify(hideUserinfo(node.origin.text))
  const json = JSON.stringify(plain(node), (_, value: unknown) =>
    typeof value === 'string' ? hideUserinfo(value) : value,
  )
  return json.length > 120 ? `${json.slice(0, 120)}…` : json
}

function hasSecret(node: ConfigNode): boolean {
  if (node.secret) return true
  if (isMap(node)) return [...node.value.values()].some(hasSecret)
  return isList(node) && node.value.some(hasSecret)
}
