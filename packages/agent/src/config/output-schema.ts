/** The keys of `output`: of the agent, and of an identity. */
import * as v from 'valibot'
import { isTreeObject } from '../schema/config-tree.ts'
import { Fault } from '../schema/fault.ts'
import { faultMessage, list, object, type Schema } from '../schema/schema-parts.ts'
import { account, flag, nonEmpty, oneOf, path, socketMode } from '../schema/values.ts'

const reloadBySignal = object({ signal: oneOf(['SIGHUP', 'SIGUSR1', 'SIGUSR2', 'SIGWINCH', 'SIGTERM']), pidFile: path })
const reloadByCommand = object({
  command: v.pipe(
    list(nonEmpty),
    v.rawTransform<string[], readonly [string, ...string[]]>(({ dataset: { value }, addIssue, NEVER }) => {
      const [program, ...args] = value
      if (program?.startsWith('/')) return [program, ...args]
      const fault = new Fault('does not begin with an absolute path', 'Write such as [/usr/sbin/nginx, -s, reload]')
      addIssue({ message: faultMessage(fault) })
      return NEVER
    }),
  ),
})

/** How a program is asked to read its files again. */
export type ReloadSetting = v.InferOutput<typeof reloadBySignal> | v.InferOutput<typeof reloadByCommand>

const reload = v.lazy(input =>
  isTreeObject(input) && 'command' in input ? reloadByCommand : reloadBySignal,
) as Schema<ReloadSetting>

export const output = object({
  directory: path,
  mode: socketMode,
  owner: v.optional(account('/etc/passwd')),
  group: v.optional(account('/etc/group')),
  bundle: flag,
  reload: v.optional(reload),
})

/** Where the certificate of an identity is written. The paths are absolute. */
export type OutputSetting = v.InferOutput<typeof output>
