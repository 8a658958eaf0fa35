/** Finds unusable files of the section `ca`, for `livery check-config`: a running agent reads them once it can. */
import { oneLine } from '@livery/core/plugin'
import type { CASection } from '../config/ca-section.ts'

/** One line for each file, in the words of the client of the CA. */
export async function unusableCAFiles({ rootCert, clientCertificate, members = [] }: CASection): Promise<string[]> {
  const { connectionTls } = await import('@livery/ca-plugins/connection')
  const warnings: string[] = []
  const log = { warn: (text: string) => void warnings.push(text) }
  try {
    await connectionTls({ ...(rootCert && { rootCert }), ...(clientCertificate && { clientCertificate }), log })()
  } catch (error) {
    warnings.push(error instanceof Error ? error.message : String(error))
  }
  const others = await Promise.all(members.map(unusableCAFiles))
  return [...warnings.map(text => `ca: ${oneLine(text)} The agent reads it as soon as it can.`), ...others.flat()]
}
