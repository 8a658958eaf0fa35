/** The other files of the configuration: roots, the folder of the store, the token of the operator. */
import { X509Certificate } from 'node:crypto'
import { stat, statfs } from 'node:fs/promises'
import { checkFolder, oneLine, readSmallFile, scrub, splitCertificates, systemErrorCode } from '@livery/core/plugin'
import { readToken } from '../admin/operator.ts'
import { unusableStoreKey } from '../commands/unusable-store-key.ts'
import type { CASection } from '../config/ca-section.ts'
import type { Config } from '../config/load.ts'
import { isPem } from '../schema/values.ts'
import { unusableTrustFiles } from '../trust/unusable-files.ts'
import { type Finding, ok, skipped, warning, wrong } from './finding.ts'

export async function fileFindings(config: Config, isRunning: boolean, now: number): Promise<Finding[]> {
  const roots = await Promise.all([...new Set(rootFilesOf(config.ca))].map(path => rootFindings(path, now)))
  const unusable = (await unusableTrustFiles(config)).map(text =>
    wrong('roots', 'trust', oneLine(text), 'Correct the file'),
  )
  return [
    ...roots.flat(),
    ...unusable,
    ...(await storeFindings(config, isRunning)),
    ...(await unusableStoreKey(config)).map(text => wrong('folder', 'store.keyFile', text, 'Correct the file')),
    ...(await operatorFindings(config)),
  ]
}

function rootFilesOf({ rootCert, members = [] }: CASection): readonly string[] {
  const own = rootCert === undefined || rootCert === 'system' || isPem(rootCert) ? [] : [rootCert]
  return [...own, ...members.flatMap(rootFilesOf)]
}

const MONTH_MS = 30 * 86_400_000
/** The same limit as in the transport to the CA. */
const MAX_ROOT_BYTES = 1_048_576

/** The certificates that verify the CA itself. */
async function rootFindings(path: string, now: number): Promise<Finding[]> {
  try {
    const certificates = splitCertificates(String(await readSmallFile(path, MAX_ROOT_BYTES))).map(
      pem => new X509Certificate(pem),
    )
    if (certificates.length === 0)
      return [wrong('roots', path, 'it has no certificate', 'Write the root of the CA there, as PEM')]
    const last = Math.max(...certificates.map(({ validToDate }) => validToDate.getTime()))
    const end = new Date(last).toISOString()
    const remedy = 'Have the CA make its next root, and write both here'
    if (last <= now) return [wrong('roots', path, `all roots in this file have expired, the last at ${end}`, remedy)]
    if (last - now < MONTH_MS)
      return [warning('roots', path, `all roots in this file will have expired by ${end}`, remedy)]
    return [ok('roots', path, `${certificates.length} to verify the CA with, until ${end}`)]
  } catch (error) {
    return [wrong('roots', path, scrub(error), 'Write the root of the CA there, readable for the agent')]
  }
}

/** A range can have ten thousand outputs, all on one disk. */
const MAX_DIRECTORIES = 20
/** Room for a few thousand certificates with their keys. */
const LEAST_BYTES = 16 * 1024 * 1024

/** The existing directories that the agent writes to. */
export async function diskFindings({ store, identities }: Config): Promise<Finding[]> {
  const outputs = identities.flatMap(({ output }) => output?.directory ?? [])
  const directories = new Set([...(store ? [store.directory] : []), ...outputs])
  const found = await Promise.all([...directories].slice(0, MAX_DIRECTORIES).map(diskFinding))
  return found.filter(each => each !== undefined)
}

async function diskFinding(directory: string): Promise<Finding | undefined> {
  const stats = await statfs(directory).catch(() => undefined)
  if (!stats) return undefined
  const free = stats.bavail * stats.bsize
  const remedy =
    'Make room there, and do not restart the agent before: until then new certificates are not on disk for a restart, or for the programs that read them'
  // File systems without a table of files, such as btrfs, report 0 of 0.
  if (stats.files > 0 && stats.ffree === 0) return wrong('disk', directory, 'no further file can be made there', remedy)
  if (free < LEAST_BYTES) return wrong('disk', directory, `${Math.floor(free / 1024)} KiB are free`, remedy)
  return ok('disk', directory, `${Math.floor(free / 1024 / 1024)} MiB are free`)
}

const OTHERS = 0o077

async function storeFindings({ store }: Config, isRunning: boolean): Promise<Finding[]> {
  if (!store) return []
  const { directory } = store
  try {
    const { mode } = await stat(directory)
    if (mode & OTHERS)
      return [
        wrong('folder', directory, 'keys are kept there, and others can look into it', `Run: chmod 0700 ${directory}`),
      ]
    checkFolder(directory, { owners: 'delegated' })
    return [ok('folder', directory, 'only its owner can look into it')]
  } catch (error) {
    if (systemErrorCode(error) === 'ENOENT' && !isRunning)
      return [skipped('folder', directory, 'the agent makes it when it starts')]
    return [wrong('folder', directory, scrub(error), "Give the agent's user a folder of mode 0700 there")]
  }
}

async function operatorFindings({ admin: { tokenFile } }: Config): Promise<Finding[]> {
  if (tokenFile === undefined) return []
  const token = await readToken(tokenFile)
  if ('text' in token) return [ok('folder', tokenFile, "the operator's token can be read")]
  return [
    wrong(
      'folder',
      tokenFile,
      scrub(token.refusal),
      "Write at least 16 characters there, owned by the agent's user, mode 0600",
    ),
  ]
}
