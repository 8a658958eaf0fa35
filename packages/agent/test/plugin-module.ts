/** Plugin modules for tests, written to a folder: they issue for real, and misbehave as they are told. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { PluginModule } from '../src/plugin-worker/messages.ts'

export interface PluginModuleOptions {
  /** Statements before everything else in the module. */
  readonly onLoad?: string
  /** Statements at the start of `create(context, config)`. */
  readonly onCreate?: string
  /** Statements at the start of `issue(request)`. */
  readonly onIssue?: string
  /** Members of the client beside `issue` and its disposal. */
  readonly members?: string
  /** Fields of the plugin, in place of its own or beside them. */
  readonly fields?: string
}

/**
 * Writes `name` to `folder`: a CA of its own, kept in `folder`. Its statements may use `context`, `folder`, `CAError` and
 * `once(name)`, which is true the first time in the life of the folder.
 */
export async function writePluginModule(
  folder: string,
  options: PluginModuleOptions = {},
  name = 'acme.mjs',
): Promise<PluginModule> {
  const { onLoad = '', onCreate = '', onIssue = '', members = '', fields = '' } = options
  const text = `
import { existsSync, writeFileSync } from 'node:fs'
import { CAError } from '@livery/core'
import { CertificateAuthority } from ${JSON.stringify(import.meta.resolve('@livery/ca-plugins/embedded'))}
const folder = ${JSON.stringify(folder)}
const once = name => {
  const file = folder + '/' + name
  if (existsSync(file)) return false
  writeFileSync(file, '')
  return true
}
${onLoad}
export const plugin = {
  apiVersion: 1,
  name: 'acme',
  capabilities: { roots: 'none', ttl: 'honoured', san: 'csr', keyTypes: ['ecdsa-p256'] },
  options: {},
  async create(context, config) {
    ${onCreate}
    const { clock, trustDomain } = context
    const authority = await CertificateAuthority.open({ clock, trustDomain, directory: folder + '/ca' })
    return {
      async issue(request) {
        ${onIssue}
        const { der } = await request.csr()
        const { identity, ttlSeconds } = request
        const { chain } = await authority.sign({ identity, csr: der, ttlSeconds })
        return { chain, roots: authority.trustBundle() }
      },
      ${members}
      async [Symbol.asyncDispose]() {},
    }
  },
  ${fields}
}
`
  await writeFile(join(folder, name), text)
  return { kind: 'ca', specifier: `./${name}`, parent: join(folder, 'livery.yaml') }
}
