/** Finds unusable files of `trust`, for `livery check-config`: a running agent reads them once it can. */
import { TrustFile, WatchedFiles } from '@livery/core'
import { SystemClock } from '@livery/core/plugin'
import type { Config } from '../config/load.ts'
import { isPem } from '../schema/values.ts'

/** One line for each file. */
export async function unusableTrustFiles({
  trustDomain,
  trust,
}: Pick<Config, 'trustDomain' | 'trust'>): Promise<string[]> {
  using clock = new SystemClock()
  using watched = new WatchedFiles(clock, () => {})
  const warnings: string[] = []
  for (const { key, path, content } of filesOf(trust)) {
    const file = await TrustFile.open(path, trustDomain, watched, content)
    using _open = file.open({
      listed() {},
      failed: reason =>
        warnings.push(`${key} cannot be used: ${path}: ${reason}. The agent reads it as soon as it can.`),
    })
  }
  return warnings
}

interface ConfiguredFile {
  readonly key: string
  readonly path: string
  readonly content: 'roots' | 'crls'
}

function filesOf({ anchors, federated, crl }: Config['trust']): readonly ConfiguredFile[] {
  const files: ConfiguredFile[] = anchors.map((path, index) => ({
    key: `trust.anchors[${index}]`,
    path,
    content: 'roots',
  }))
  for (const [name, { url, ...from }] of Object.entries(federated)) {
    const key = `trust.federated.${name}`
    if ('file' in from) files.push({ key: `${key}.file`, path: from.file, content: 'roots' })
    else if (from.rootCert !== undefined) files.push({ key: `${key}.rootCert`, path: from.rootCert, content: 'roots' })
    if (from.crl !== undefined) files.push({ key: `${key}.crl`, path: from.crl, content: 'crls' })
  }
  if (crl !== undefined) files.push({ key: 'trust.crl', path: crl, content: 'crls' })
  return files.filter(({ path }) => !isPem(path))
}
