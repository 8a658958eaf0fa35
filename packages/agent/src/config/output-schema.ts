/** The keys of `output`: of the agent, and of an identity. */
import * as v from 'valibot'
import { isTreeObject } from '../schema/config-tree.ts'
import { Fault } from '../schema/fault.ts'
import { faultMessage, key, list, object, oneForm } from '../schema/schema-parts.ts'
import { account, flag, nonEmpty, oneOf, path, socketMode } from '../schema/values.ts'

const reloadBySignal = object({
  signal: key('the signal', oneOf(['SIGHUP', 'SIGUSR1', 'SIGUSR2', 'SIGWINCH', 'SIGTERM'])),
  pidFile: key('the file with the PID of the process that gets it', path),
})
const reloadByCommand = object({
  command: key(
    "in place of `signal`, the program, by its absolute path, and its arguments; it runs without a shell, as the agent's user, for at most 10 s",
    v.pipe(
      list(nonEmpty),
      v.rawTransform<string[], readonly [string, ...string[]]>(({ dataset: { value }, addIssue, NEVER }) => {
        const [program, ...args] = value
        if (program?.startsWith('/')) return [program, ...args]
        const fault = new Fault('does not begin with an absolute path', 'Write such as [/usr/sbin/nginx, -s, reload]')
        addIssue({ message: faultMessage(fault) })
        return NEVER
      }),
    ),
  ),
})

/** How to ask a program to read its files again. */
export type ReloadSetting = v.InferOutput<typeof reloadBySignal> | v.InferOutput<typeof reloadByCommand>

const reload = oneForm<ReloadSetting>([reloadBySignal, reloadByCommand], input =>
  isTreeObject(input) && 'command' in input ? reloadByCommand : reloadBySignal,
)

export const output = object({
  directory: key(
    'where `key.pem`, `cert-chain.pem` and `root-cert.pem` are written. `{name}` is the last segment of the SPIFFE ID',
    path,
  ),
  mode: key('the mode of `key.pem` and `bundle.pem`; the other files have 0644', socketMode, { default: '0600' }),
  owner: v.optional(key('the owner of the files and the directory; needs root', account('/etc/passwd'))),
  group: v.optional(key('the group of the files and the directory', account('/etc/group'))),
  bundle: key('also `bundle.pem`, with key, chain and roots in one file', flag, { default: false }),
  reload: v.optional(key('how to ask a program to read the files again, after each set', reload)),
})

/** Where to write the certificate of an identity. The paths are absolute. */
export type OutputSetting = v.InferOutput<typeof output>
