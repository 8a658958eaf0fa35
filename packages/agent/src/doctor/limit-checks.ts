/** Limits of the kernel: open files, and watches of files (inotify(7)). */
import { watch } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { systemErrorCode } from '@livery/core/plugin'
import { descriptorShortage, readDescriptorLimit } from '@livery/sds-server'
import { DEFAULT_LIMITS } from '@livery/sds-server/defaults'
import type { ProblemList } from '../admin/routes.ts'
import type { Config } from '../config/load.ts'
import { sdsSockets } from '../sds/sds-sockets.ts'
import { type Finding, ok, skipped, warning, wrong } from './finding.ts'

/** Needed beside the sockets, for the callers of one node: with fewer some are sure to be refused. */
const LEAST_FILES = 1_152

/** The running agent's limit, if one runs: this command has other limits than a service. */
export function openFilesFinding(config: Config, agent: ProblemList | undefined): Finding {
  const sockets = sdsSockets(config, 1)
  const limit = agent?.openFiles ?? readDescriptorLimit()
  const subject = agent ? 'livery run' : 'this shell'
  if (limit === undefined) return skipped('open-files', subject, 'the limit is not known here')
  const connections = Math.max(0, ...sockets.map(({ limits }) => limits?.connections ?? DEFAULT_LIMITS.connections))
  const shortage = descriptorShortage(limit, sockets.length, connections)
  const remedy =
    'Raise LimitNOFILE= of the unit, the ulimit of the container, or "ulimit -Hn", or lower limits.connections'
  if (!shortage) return ok('open-files', subject, `${limit} files may be open`)
  const text = `${limit} files may be open, and limits.connections ${connections} needs ${shortage.wanted}`
  const report = limit < sockets.length + LEAST_FILES ? wrong : warning
  return report('open-files', subject, text, remedy)
}

const INSTANCES = ['/proc/sys/fs/inotify/max_user_instances', '/proc/sys/user/max_inotify_instances']
const WATCHES = ['/proc/sys/fs/inotify/max_user_watches', '/proc/sys/user/max_inotify_watches']
/** The agent watches the folder of each token, root, certificate file and configuration file. */
const LEAST_WATCHES = 1_024
const LEAST_INSTANCES = 8

/** These limits are per user, so the finding is about the agent's only if this command runs as the same user. */
export async function inotifyFinding(): Promise<Finding> {
  const [instances, watches] = [await least(INSTANCES), await least(WATCHES)]
  const subject = `uid ${process.getuid?.()}`
  const remedy =
    'Raise fs.inotify.max_user_instances and fs.inotify.max_user_watches (sysctl). Until then changes of files are seen by looking, once a minute'
  const code = watchError()
  if (code !== undefined)
    return wrong(
      'inotify',
      subject,
      `no folder can be watched (${code}): ${instances} instances and ${watches} watches are allowed`,
      remedy,
    )
  if (instances === undefined || watches === undefined)
    return skipped('inotify', subject, 'the limits are not known here')
  const text = `${instances} instances and ${watches} watches are allowed`
  return instances < LEAST_INSTANCES || watches < LEAST_WATCHES
    ? wrong('inotify', subject, `only ${text}`, remedy)
    : ok('inotify', subject, text)
}

function watchError(): string | undefined {
  try {
    watch(tmpdir()).close()
    return undefined
  } catch (error) {
    return systemErrorCode(error) ?? String(error)
  }
}

/** The lowest limit counts, including a user namespace's. */
async function least(paths: readonly string[]): Promise<number | undefined> {
  const texts = await Promise.all(paths.map(path => readFile(path, 'utf8').catch(() => '')))
  const limits = texts.filter(text => text !== '').map(Number)
  return limits.length === 0 ? undefined : Math.min(...limits)
}
