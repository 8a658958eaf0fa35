/** `livery renew NAME`: has the running agent renew one certificate now. */
import type { ConfigSources } from '../config/layers.ts'
import { changeByAdmin, firstLine } from './admin-client.ts'
import { EXIT } from './exit-code.ts'
import type { Terminal } from './terminal.ts'

export async function renewCertificate(name: string, sources: ConfigSources, terminal: Terminal): Promise<number> {
  const { status, body } = await changeByAdmin(`/renew?name=${encodeURIComponent(name)}`, sources)
  if (status !== 202) {
    terminal.err(`livery: ${firstLine(body)}\n`)
    return EXIT.failed
  }
  terminal.out(`${firstLine(body)}\n`)
  return EXIT.ok
}
